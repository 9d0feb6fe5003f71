//! Servers that go, come back or were never there, and members that come and go.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tidings::ErrorKind;
use tidings_tests::harness::{Cut, Kafka, KafkaOptions, Refusal, free_ports};

use super::*;

on_every_way! {
    a_server_that_was_never_there_holds_nobody_up,
    a_member_outlives_its_server_s_absence,
    a_paused_server_holds_no_leaving_member_up,
    a_commit_without_an_answer_holds_no_close_up,
    the_place_of_a_named_member_that_crashed_is_taken,
    nothing_is_lost_while_members_come_and_go,
    f12_lag_is_counted_while_a_group_is_busy,
}

const TIMEOUT: Duration = Duration::from_secs(2);

fn limits() -> Limits {
    Limits::default().timeout(TIMEOUT)
}

async fn a_server_that_was_never_there_holds_nobody_up(way: Way) {
    let broker = broker_with(way.backend(&format!("127.0.0.1:{}", free_ports(1)[0])), &namespace(), limits());
    let orders = Order::stream(&broker).unwrap();
    let group = orders.commit_group("reports").unwrap();
    for (what, error) in [
        ("join", group.join(MemberSettings::new()).await.map(drop).unwrap_err()),
        ("ensure", group.ensure(Start::Latest).await.map(drop).unwrap_err()),
        ("lag", group.lag().await.map(drop).unwrap_err()),
        ("reset", group.reset_offsets(Start::Latest).await.map(drop).unwrap_err()),
        ("delete", group.delete().await.map(drop).unwrap_err()),
        ("unit", broker.unit().append(&orders, (&1, &Order { number: 1 })).record().await.map(drop).unwrap_err()),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{what}: {error}");
    }
    let since = Instant::now();
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
    eprintln!("{way:?}: closed after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(8));
}

async fn a_member_outlives_its_server_s_absence(way: Way) {
    let mut server = Kafka::start(way.kind, KafkaOptions::default()).await;
    let broker = broker_with(way.backend(&server.address()), &namespace(), limits());
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new().partitions(2)).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 10).await;
    // It stands still: a commit fails in time, and can be repeated.
    server.pause().await;
    let since = Instant::now();
    let failed = member.commit(deliveries.iter().map(Delivery::position)).await.unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{failed}");
    assert!(since.elapsed() < TIMEOUT * 2, "{:?}", since.elapsed());
    server.resume().await;
    within("a commit goes through", async {
        while member.commit(deliveries.iter().map(Delivery::position)).await.is_err() {}
    })
    .await;
    assert!(
        within("it is recorded", async {
            loop {
                match group.lag().await {
                    Ok(lag) => return lag.iter().all(|lag| lag.records == 0),
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            }
        })
        .await
    );
    // It dies and comes back with its log: the member goes on where it was.
    server.kill();
    let told = member.read(PAGE, Duration::from_secs(3)).await;
    eprintln!("{way:?}: while the server is away, {told:?}");
    server.restart().await;
    within("an append goes through", async {
        for number in 10..20 {
            while orders.append(&number, &Order { number }).await.is_err() {}
        }
    })
    .await;
    let mut numbers = BTreeSet::new();
    let mut last = Vec::new();
    within("the records come", async {
        while numbers.len() < 10 {
            match member.read(PAGE, Duration::from_secs(1)).await {
                Ok(deliveries) => {
                    numbers.extend(deliveries.iter().map(number));
                    last.extend(deliveries);
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
        while member.commit(last.iter().map(Delivery::position)).await.is_err() {
            member.read(PAGE, Duration::from_millis(50)).await.ok();
        }
    })
    .await;
    assert_eq!(numbers, (10..20).collect());
    // Gone for good, nobody waits for it beyond the deadlines.
    let second = within("another joins", async {
        loop {
            match group.join(MemberSettings::new()).await {
                Ok(member) => return member,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    })
    .await;
    server.kill();
    let _ = member.commit([tidings::Position::new(0, 0)]).await;
    let since = Instant::now();
    member.leave().await;
    let left = since.elapsed();
    let since = Instant::now();
    drop(second);
    let dropped = since.elapsed();
    let since = Instant::now();
    broker.close(Duration::from_secs(20)).await.expect("everything ends");
    eprintln!("{way:?}: left after {left:?}, dropped after {dropped:?}, closed after {:?}", since.elapsed());
    assert!(left < TIMEOUT * 2 && dropped < A_MOMENT);
}

/// How often each was given, and which were committed before they were given to another.
#[derive(Default)]
struct Seen {
    times: BTreeMap<u64, usize>,
    committed: BTreeSet<u64>,
    again: Vec<u64>,
}

async fn a_paused_server_holds_no_leaving_member_up(way: Way) {
    let server = Kafka::start(way.kind, KafkaOptions::default()).await;
    let broker = broker_with(way.backend(&server.address()), &namespace(), limits());
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new().partitions(3)).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let [first, second, third] = [(); 3].map(|()| group.join(MemberSettings::new()));
    let (first, second, third) = tokio::join!(first, second, third);
    let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
    within("each has a partition", async {
        while [&first, &second, &third].iter().any(|member| member.assigned().is_empty()) {
            tokio::join!(look(&first), look(&second), look(&third));
        }
    })
    .await;
    server.pause().await;
    let since = Instant::now();
    first.leave().await;
    let left = since.elapsed();
    let since = Instant::now();
    drop(second);
    let dropped = since.elapsed();
    let since = Instant::now();
    broker.close(Duration::from_secs(20)).await.expect("everything ends");
    let closed = since.elapsed();
    eprintln!("{way:?}: left after {left:?}, dropped after {dropped:?}, closed after {closed:?}");
    assert!(left < TIMEOUT * 2 && dropped < A_MOMENT && closed < Duration::from_secs(15));
    let ended = within("reading", third.read(PAGE, A_MOMENT)).await.map(drop).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Closed, "{ended}");
    server.resume().await;
}

/// The client waits for a commit's answer for longer than anyone waits for a close.
async fn a_commit_without_an_answer_holds_no_close_up(way: Way) {
    let server = Kafka::start(way.kind, KafkaOptions::default()).await;
    let broker = broker_with(way.backend(&server.address()), &namespace(), limits());
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new()).await.unwrap();
    let (joined, idle) = (group(&orders, Start::Earliest).await, orders.commit_group("idle").unwrap());
    idle.ensure(Start::Latest).await.unwrap();
    append(&orders, 0..10).await;
    let member = joined.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 10).await;
    server.pause().await;
    let committing = member.commit(deliveries.iter().map(Delivery::position));
    let (committed, reset) = tokio::join!(committing, idle.reset_offsets(Start::Earliest));
    for failed in [committed.unwrap_err(), reset.map(drop).unwrap_err()] {
        assert!(matches!(failed.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{failed}");
    }
    let since = Instant::now();
    broker.close(Duration::from_secs(20)).await.expect("everything ends");
    eprintln!("{way:?}: closed after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(8), "{way:?}: {:?}", since.elapsed());
    drop(member);
    server.resume().await;
}

/// A member that is cut off is as one whose process was killed: the server hears no farewell.
async fn the_place_of_a_named_member_that_crashed_is_taken(way: Way) {
    let server = Kafka::shared(way.kind).await;
    let (namespace, door) = (namespace(), server.door().await);
    let there = broker(way.backend(&server.address()), &namespace);
    let orders = Order::stream(&there).unwrap();
    orders.ensure(StreamSettings::new().partitions(2)).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let behind = broker_with(way.backend(&door.address()), &namespace, limits());
    let cut_off = Order::stream(&behind).unwrap().commit_group("reports").unwrap();
    let named = || MemberSettings::new().name("one");
    let one = cut_off.join(named()).await.unwrap();
    let deliveries = read(&one, 10).await;
    commit(&one, &deliveries[..5]).await;
    let left: BTreeSet<u64> = {
        let committed = group.committed().await.unwrap();
        let is_left = |at: tidings::Position| committed.get(at.partition()).is_none_or(|done| done < at);
        deliveries.iter().filter(|delivery| is_left(delivery.position())).map(number).collect()
    };
    door.refuse(Refusal::StopListening).await;
    door.cut(Cut::Reset).await;
    // Where the server decides, the place is another's once the session is over.
    let mut numbers = BTreeSet::new();
    within("another has its place", async {
        let mut next = group.join(named()).await;
        while numbers.len() < left.len() {
            let read = match &next {
                Ok(next) => next.read(PAGE, Duration::from_millis(200)).await,
                Err(error) => Err(error.clone()),
            };
            match read {
                Ok(deliveries) => numbers.extend(deliveries.iter().map(number)),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Revoked | ErrorKind::Conflict), "{error}");
                    next = group.join(named()).await;
                }
            }
        }
    })
    .await;
    assert_eq!(numbers, left);
    behind.close(Duration::from_secs(20)).await.expect("everything ends");
}

async fn nothing_is_lost_while_members_come_and_go(way: Way) {
    const RECORDS: u64 = 3_000;
    let (broker, orders) = shared(way, 6).await;
    let group = group(&orders, Start::Earliest).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let run = |stay: Option<Duration>| {
        let (group, seen, stop) = (group.clone(), seen.clone(), stop.clone());
        tokio::spawn(async move {
            let mut member = group.join(MemberSettings::new()).await.unwrap();
            let mut since = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let deliveries = member.read(20, Duration::from_millis(50)).await.unwrap();
                {
                    let mut seen = seen.lock().unwrap();
                    for number in deliveries.iter().map(number) {
                        *seen.times.entry(number).or_default() += 1;
                        if seen.committed.contains(&number) {
                            seen.again.push(number);
                        }
                    }
                }
                if stay.is_some_and(|stay| since.elapsed() > stay) {
                    // Gone without a commit, and back.
                    since = Instant::now();
                    if deliveries.len() % 2 == 0 {
                        drop(member);
                    } else {
                        member.leave().await;
                    }
                    member = group.join(MemberSettings::new()).await.unwrap();
                    continue;
                }
                if member.commit(deliveries.iter().map(Delivery::position)).await.is_ok() {
                    seen.lock().unwrap().committed.extend(deliveries.iter().map(number));
                }
            }
            member.leave().await;
        })
    };
    let tasks = [run(None), run(Some(Duration::from_millis(1_500))), run(Some(Duration::from_millis(2_700)))];
    for page in 0..RECORDS / 100 {
        append(&orders, page * 100..(page + 1) * 100).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let since = Instant::now();
    // A commit of which a part was refused has recorded the rest, so the group says what is done.
    while group.lag().await.unwrap().iter().any(|lag| lag.records > 0) {
        let missing = || {
            let seen = seen.lock().unwrap();
            (0..RECORDS).filter(|number| !seen.times.contains_key(number)).take(10).collect::<Vec<_>>()
        };
        assert!(since.elapsed() < Duration::from_secs(40), "{:?}, unseen: {:?}, ..", group.lag().await, missing());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.times.len(), usize::try_from(RECORDS).unwrap());
        let twice = seen.times.values().filter(|times| **times > 1).count();
        eprintln!("{way:?}: {twice} of {RECORDS} came more than once");
        assert!(seen.again.is_empty(), "committed and given again: {:?}", seen.again);
    }
    assert!(group.lag().await.unwrap().iter().all(|lag| lag.records == 0));
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

async fn f12_lag_is_counted_while_a_group_is_busy(way: Way) {
    let (_broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let busy = async {
        for page in 0..20 {
            append(&orders, page * 50..(page + 1) * 50).await;
            let deliveries = read(&member, 50).await;
            commit(&member, &deliveries).await;
        }
    };
    let counting = async {
        loop {
            let lag = group.lag().await.unwrap()[0];
            // A page that came between the two questions.
            assert!(lag.records <= 100, "{lag:?}");
        }
    };
    tokio::select! {
        () = busy => {}
        () = counting => {}
    }
    assert_eq!(group.lag().await.unwrap()[0].records, 0);
}
