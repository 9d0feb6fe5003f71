//! What a member is given, and what it commits.

use tidings::{ErrorKind, Outcome, Position};
use tidings_tests::harness::Kafka;

use super::*;

on_every_way! {
    a_member_reads_commits_and_another_goes_on,
    two_members_share_the_partitions,
    a_group_that_nobody_recorded_is_absent,
    rewinding_gives_what_is_not_committed_again,
    a_member_without_a_partition_leaves_as_the_others,
}

async fn a_member_reads_commits_and_another_goes_on(way: Way) {
    let (broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    assert!(!group.ensure(Start::Latest).await.expect("it is there"));
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.expect("the group is there");
    let read_first = read(&member, 10).await;
    assert_eq!(read_first.iter().map(number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    // An offset of 0 counts.
    commit(&member, &read_first[..1]).await;
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 0)));
    commit(&member, &read_first[..6]).await;
    // Never backwards.
    commit(&member, &read_first[..2]).await;
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 5)));
    assert_eq!(group.lag().await.unwrap()[0].records, 4);
    let since = Instant::now();
    member.leave().await;
    eprintln!("{way:?}: left after {:?}", since.elapsed());
    let since = Instant::now();
    let member = group.join(MemberSettings::new()).await.expect("the group is there");
    eprintln!("{way:?}: joined after {:?}", since.elapsed());
    assert_eq!(read(&member, 4).await.iter().map(number).collect::<Vec<_>>(), [6, 7, 8, 9]);
    eprintln!("{way:?}: read after {:?}", since.elapsed());
    let since = Instant::now();
    drop(member);
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
    eprintln!("{way:?}: closed after {:?}", since.elapsed());
}

async fn two_members_share_the_partitions(way: Way) {
    let (_broker, orders) = shared(way, 4).await;
    let group = group(&orders, Start::Earliest).await;
    let first = group.join(MemberSettings::new()).await.expect("the group is there");
    spread(&[&first], &[4]).await;
    let since = Instant::now();
    let second = group.join(MemberSettings::new()).await.expect("the group is there");
    spread(&[&first, &second], &[2, 2]).await;
    eprintln!("{way:?}: shared after {:?}", since.elapsed());
    append(&orders, 0..40).await;
    let mut numbers = BTreeSet::new();
    within("all records come", async {
        while numbers.len() < 40 {
            for member in [&first, &second] {
                let deliveries = look(member).await;
                assert!(deliveries.iter().all(|delivery| member.assigned().contains(&delivery.position().partition())));
                commit(member, &deliveries).await;
                for delivery in &deliveries {
                    assert!(numbers.insert(number(delivery)), "{} came twice", number(delivery));
                }
            }
        }
    })
    .await;
    assert!(group.lag().await.unwrap().iter().all(|lag| lag.records == 0));
    second.leave().await;
    spread(&[&first], &[4]).await;
}

async fn a_group_that_nobody_recorded_is_absent(way: Way) {
    let (broker, orders) = shared(way, 2).await;
    let group = orders.commit_group("reports").unwrap();
    let kinds = [
        group.join(MemberSettings::new()).await.map(drop).unwrap_err(),
        group.committed().await.map(drop).unwrap_err(),
        group.lag().await.map(drop).unwrap_err(),
        group.reset_offsets(Start::Earliest).await.map(drop).unwrap_err(),
    ];
    for error in kinds {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Absent, Outcome::NotApplied), "{error}");
    }
    assert!(!group.delete().await.unwrap());
    group.ensure(Start::Latest).await.unwrap();
    assert!(group.committed().await.unwrap().is_empty());
    let member = group.join(MemberSettings::new()).await.unwrap();
    spread(&[&member], &[2]).await;
    assert_eq!(group.delete().await.unwrap_err().kind(), ErrorKind::Conflict);
    member.leave().await;
    assert!(group.delete().await.unwrap());
    assert_eq!(group.committed().await.unwrap_err().kind(), ErrorKind::Absent);
    // And none of them makes a stream.
    orders.delete().await.unwrap();
    for error in [
        group.ensure(Start::Earliest).await.map(drop).unwrap_err(),
        group.join(MemberSettings::new()).await.map(drop).unwrap_err(),
        group.lag().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Absent, "{error}");
    }
    assert!(!orders.delete().await.unwrap());
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

async fn rewinding_gives_what_is_not_committed_again(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    // Before anything was read, and to the first offset.
    member.seek_to_committed().await.unwrap();
    let first = read(&member, 10).await;
    member.seek_to_committed().await.unwrap();
    assert_eq!(read(&member, 10).await.iter().map(number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    commit(&member, &first[..7]).await;
    member.seek_to_committed().await.unwrap();
    assert_eq!(read(&member, 3).await.iter().map(number).collect::<Vec<_>>(), [7, 8, 9]);
    tokio::time::sleep(A_MOMENT).await;
    assert!(look(&member).await.is_empty());
}

async fn a_member_without_a_partition_leaves_as_the_others(way: Way) {
    let server = Kafka::shared(way.kind).await;
    // Whoever waits for one that said no farewell waits for longer than the test.
    let broker = broker(way.backend(&server.address()).session_timeout(Duration::from_mins(2)), &namespace());
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new()).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    let one = group.join(MemberSettings::new()).await.unwrap();
    spread(&[&one], &[1]).await;
    for leaves in [true, false] {
        let idle = group.join(MemberSettings::new()).await.unwrap();
        spread(&[&one, &idle], &[0, 1]).await;
        tokio::join!(look(&one), look(&idle));
        if leaves {
            idle.leave().await;
        } else {
            drop(idle);
        }
    }
    let next = group.join(MemberSettings::new()).await.unwrap();
    one.leave().await;
    spread(&[&next], &[1]).await;
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}
