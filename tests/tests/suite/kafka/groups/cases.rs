//! Cases from reports about offset groups elsewhere.

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::{Offset, TopicPartitionList};
use tidings::{ErrorKind, Position, Positions};
use tidings_tests::harness::Kafka;

use super::*;

on_every_way! {
    f03_a_reset_begins_after_the_position,
    f05_f06_f07_what_moved_on_is_not_committed_by_its_old_owner,
    f11_what_was_removed_is_no_lag,
    f13_a_reset_is_refused_while_the_group_lives,
    f14_what_was_removed_past_what_is_committed_is_told,
    f15_a_group_whose_offsets_are_gone_says_so,
    f16_a_slow_handler_stays_a_member,
    f18_a_named_member_gets_its_partitions_back,
    f22_what_comes_after_the_start_is_read,
    what_was_removed_is_told,
    an_added_partition_is_read_from_its_first_record,
    a_partition_is_taken_when_the_time_is_up,
}

async fn admin(way: Way) -> AdminClient<DefaultClientContext> {
    let server = Kafka::shared(way.kind).await;
    ClientConfig::new().set("bootstrap.servers", server.address()).create().expect("the settings are good")
}

/// Removes a partition's records before an offset, as retention does.
async fn remove_before(way: Way, orders: &Orders, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(orders.address(), partition, Offset::Offset(offset)).unwrap();
    let admin = admin(way).await;
    admin.delete_records(&list, &AdminOptions::new()).await.expect("the server does it");
    tokio::task::spawn_blocking(move || drop(admin)).await.unwrap();
}

async fn f03_a_reset_begins_after_the_position(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let reset = group.reset_offsets(Position::new(0, 4)).await.unwrap();
    assert_eq!(reset.get(0), Some(Position::new(0, 4)));
    let member = group.join(MemberSettings::new()).await.unwrap();
    assert_eq!(read(&member, 5).await.iter().map(number).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    member.leave().await;
    // Clamped to what is there.
    let beyond = within("the group is free", async {
        loop {
            match group.reset_offsets(Position::new(0, 1_000)).await {
                Ok(reset) => return reset,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    })
    .await;
    assert_eq!(beyond.get(0), Some(Position::new(0, 9)));
    assert!(group.reset_offsets(Start::Earliest).await.unwrap().is_empty());
    assert_eq!(group.lag().await.unwrap()[0].records, 10);
}

async fn f05_f06_f07_what_moved_on_is_not_committed_by_its_old_owner(way: Way) {
    let (broker, orders) = shared(way, 2).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..40).await;
    let first = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&first, 40).await;
    let highest = |partition: u32| {
        let own = deliveries.iter().map(Delivery::position).filter(|position| position.partition() == partition);
        own.max_by_key(|position| position.offset()).expect("each has some")
    };
    let second = group.join(MemberSettings::new()).await.unwrap();
    // What moves wasn't committed, so it comes to the second.
    let mut moved = Vec::new();
    within("a partition moves", async {
        while moved.is_empty() {
            assert!(look(&first).await.is_empty());
            moved.extend(look(&second).await);
        }
    })
    .await;
    let gone = moved[0].position().partition();
    let kept = 1 - gone;
    assert_eq!((first.assigned(), second.assigned()), (vec![kept], vec![gone]));
    // One batch of both: what is still its own is committed, and the rest is named.
    let refused = first.commit([highest(0), highest(1)]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Revoked);
    assert!(refused.to_string().contains(&format!("partitions {gone} ")), "{refused}");
    let committed = group.committed().await.unwrap();
    assert_eq!((committed.get(kept), committed.get(gone)), (Some(highest(kept)), None));
    // The new owner goes on, and back with the first nothing comes again.
    while moved.len() < usize::try_from(highest(gone).offset()).unwrap() + 1 {
        moved.extend(look(&second).await);
    }
    commit(&second, &moved).await;
    second.leave().await;
    spread(&[&first], &[2]).await;
    first.commit([highest(0)]).await.unwrap();
    tokio::time::sleep(A_MOMENT).await;
    assert!(look(&first).await.is_empty());
    let committed = group.committed().await.unwrap();
    assert_eq!((committed.get(0), committed.get(1)), (Some(highest(0)), Some(highest(1))));
    drop(first);
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

async fn f11_what_was_removed_is_no_lag(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..29).await;
    group.reset_offsets(Position::new(0, 9)).await.unwrap();
    assert_eq!(group.lag().await.unwrap()[0].records, 19);
    remove_before(way, &orders, 0, 29).await;
    let lag = group.lag().await.unwrap()[0];
    assert_eq!((lag.records, lag.committed), (0, Some(Position::new(0, 9))));
    append(&orders, 29..31).await;
    assert_eq!(group.lag().await.unwrap()[0].records, 2);
}

async fn f13_a_reset_is_refused_while_the_group_lives(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 10).await;
    commit(&member, &deliveries).await;
    let refused = group.reset_offsets(Start::Earliest).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(group.committed().await.unwrap(), Positions::from(Position::new(0, 9)));
    member.leave().await;
    within("the group is free", async { while group.reset_offsets(Start::Earliest).await.is_err() {} }).await;
    assert!(group.delete().await.unwrap());
    let since = Instant::now();
    assert_eq!(group.reset_offsets(Start::Earliest).await.unwrap_err().kind(), ErrorKind::Absent);
    assert!(since.elapsed() < Duration::from_secs(5));
}

async fn f14_what_was_removed_past_what_is_committed_is_told(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..20).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 20).await;
    commit(&member, &deliveries[..5]).await;
    member.leave().await;
    remove_before(way, &orders, 0, 12).await;

    // Who begins there is told so, and goes on with the first that is left.
    let member = group.join(MemberSettings::new()).await.unwrap();
    assert_eq!(gap(&member).await, Some(Position::new(0, 12)));
    let deliveries = read(&member, 8).await;
    assert_eq!(deliveries.iter().map(number).collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 4)));

    // So is who goes back there, as soon as it has been told.
    member.seek_to_committed().await.unwrap();
    assert_eq!(gap(&member).await, Some(Position::new(0, 12)));
    member.seek_to_committed().await.unwrap();
    assert_eq!(gap(&member).await, Some(Position::new(0, 12)));
    let deliveries = read(&member, 8).await;
    commit(&member, &deliveries).await;
    assert_eq!(group.lag().await.unwrap()[0].records, 0);
    append(&orders, 20..22).await;
    assert_eq!(read(&member, 2).await.iter().map(number).collect::<Vec<_>>(), [20, 21]);

    // The control: what was removed before what is committed is no loss.
    remove_before(way, &orders, 0, 20).await;
    member.seek_to_committed().await.unwrap();
    assert_eq!(read(&member, 2).await.iter().map(number).collect::<Vec<_>>(), [20, 21]);
}

/// Reads until it is told that records were removed, and returns the first that is left.
async fn gap(member: &Joined) -> Option<Position> {
    let trimmed = within("it is told", async {
        loop {
            match member.read(PAGE, Duration::from_secs(1)).await {
                Ok(deliveries) => assert!(deliveries.is_empty(), "{deliveries:?}"),
                Err(error) => return error,
            }
        }
    })
    .await;
    assert_eq!(trimmed.kind(), ErrorKind::Trimmed { certain: true }, "{trimmed}");
    trimmed.first_left()
}

async fn f15_a_group_whose_offsets_are_gone_says_so(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..3).await;
    let admin = admin(way).await;
    let id = format!("{}.reports", orders.address());
    let removed = admin.delete_groups(&[&id], &AdminOptions::new()).await.unwrap();
    assert!(removed[0].is_ok(), "{removed:?}");
    tokio::task::spawn_blocking(move || drop(admin)).await.unwrap();
    let absent = group.join(MemberSettings::new()).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Absent);
    assert!(absent.to_string().contains("`ensure`"), "{absent}");
}

async fn f16_a_slow_handler_stays_a_member(way: Way) {
    let server = Kafka::shared(way.kind).await;
    let backend = way.backend(&server.address()).session_timeout(Duration::from_secs(1));
    let broker = broker(backend, &namespace());
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new().partitions(1)).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 10).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    commit(&member, &deliveries).await;
    assert_eq!(member.assigned(), [0]);
    append(&orders, 10..12).await;
    assert_eq!(read(&member, 2).await.iter().map(number).collect::<Vec<_>>(), [10, 11]);
}

async fn f18_a_named_member_gets_its_partitions_back(way: Way) {
    let (broker, orders) = shared(way, 4).await;
    let group = group(&orders, Start::Earliest).await;
    let other = group.join(MemberSettings::new()).await.unwrap();
    let named = || MemberSettings::new().name("one");
    let one = group.join(named()).await.unwrap();
    spread(&[&other, &one], &[2, 2]).await;
    let before = one.assigned();
    one.leave().await;
    // Nothing moves meanwhile.
    tokio::time::sleep(A_MOMENT).await;
    look(&other).await;
    assert_eq!(other.assigned().len(), 2);
    let since = Instant::now();
    let one = group.join(named()).await.unwrap();
    spread(&[&other, &one], &[2, 2]).await;
    eprintln!("{way:?}: back after {:?}", since.elapsed());
    assert_eq!(one.assigned(), before);
    // A second of the name: either it is refused, or the first is told.
    let second = group.join(named()).await;
    let told = within("one of the two is told", async {
        loop {
            if let Err(error) = one.read(PAGE, Duration::from_millis(50)).await {
                return error;
            }
            match &second {
                Err(error) => return error.clone(),
                Ok(second) => {
                    if let Err(error) = second.read(PAGE, Duration::from_millis(50)).await {
                        return error;
                    }
                }
            }
            look(&other).await;
        }
    })
    .await;
    eprintln!("{way:?}: {told}");
    assert!(matches!(told.kind(), ErrorKind::Revoked | ErrorKind::Conflict), "{told}");
    drop((one, second, other));
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

async fn f22_what_comes_after_the_start_is_read(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    append(&orders, 0..5).await;
    let group = group(&orders, Start::Latest).await;
    append(&orders, [5]).await;
    for _ in 0..2 {
        let member = group.join(MemberSettings::new()).await.unwrap();
        assert_eq!(read(&member, 1).await.iter().map(number).collect::<Vec<_>>(), [5]);
        // It goes without a commit.
        drop(member);
    }
}

async fn what_was_removed_is_told(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..20).await;
    remove_before(way, &orders, 0, 7).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    assert_eq!(gap(&member).await, Some(Position::new(0, 7)));
    let deliveries = read(&member, 13).await;
    assert_eq!(deliveries.iter().map(number).collect::<Vec<_>>(), (7..20).collect::<Vec<_>>());
    commit(&member, &deliveries).await;
}

async fn an_added_partition_is_read_from_its_first_record(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Latest).await;
    let admin = admin(way).await;
    let added = admin.create_partitions(&[NewPartitions::new(orders.address(), 4)], &AdminOptions::new()).await;
    assert!(added.unwrap()[0].is_ok());
    tokio::task::spawn_blocking(move || drop(admin)).await.unwrap();
    let records = within("the stream has its partitions", async {
        loop {
            append(&orders, 0..40).await;
            let lag = group.lag().await.unwrap();
            if lag.len() == 4 && lag.iter().all(|lag| lag.records > 0) {
                return lag.iter().map(|lag| lag.records).sum::<u64>();
            }
        }
    })
    .await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, usize::try_from(records).unwrap()).await;
    assert!((1..4).all(|partition| deliveries.iter().any(|one| one.position() == Position::new(partition, 0))));
    commit(&member, &deliveries).await;
    assert!(group.lag().await.unwrap().iter().all(|lag| lag.records == 0));
}

async fn a_partition_is_taken_when_the_time_is_up(way: Way) {
    let (_broker, orders) = shared(way, 2).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..40).await;
    let first = group.join(MemberSettings::new().hand_over(Duration::from_millis(700))).await.unwrap();
    let deliveries = read(&first, 40).await;
    let second = group.join(MemberSettings::new()).await.unwrap();
    // The first doesn't read, so it doesn't hand over; it can commit as long as it has both.
    let mut committed = 0;
    within("a partition moves", async {
        while first.assigned().len() == 2 {
            if first.commit(deliveries[..=committed.min(39)].iter().map(Delivery::position)).await.is_ok() {
                committed += 1;
            }
            look(&second).await;
        }
    })
    .await;
    assert!(committed > 0);
    spread_with(&first, &second).await;
}

async fn spread_with(first: &Joined, second: &Joined) {
    within("the second has one", async {
        while second.assigned().len() != 1 || first.assigned().len() != 1 {
            look(second).await;
            look(first).await;
        }
    })
    .await;
}
