#![allow(clippy::disallowed_methods, reason = "tests spawn")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Memory;
use crate::{
    Broker, CommitGroup, Config, Ended, ErrorKind, MemberSettings, Namespace, Position, Start, Stop, Stream,
    StreamSettings, stream_spec,
};

#[stream_spec(name = "work.orders", version = 1, key = u32, requires(commit_groups), crate = crate)]
#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

async fn start(partitions: u32) -> (Stream<Order, Memory>, CommitGroup<Order, Memory>) {
    let broker = Broker::new(Memory::new(), Config::new(Namespace::new("work", "test").unwrap())).unwrap();
    let stream = Order::stream(&broker).unwrap();
    stream.ensure(StreamSettings::new().partitions(partitions)).await.unwrap();
    let group = stream.commit_group("crew").unwrap();
    assert!(group.ensure(Start::Earliest).await.unwrap());
    assert!(!group.ensure(Start::Latest).await.unwrap());
    (stream, group)
}

async fn append(stream: &Stream<Order, Memory>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        stream.append(&number, &Order { number }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_member_gets_its_share_and_a_commit_for_what_moved_is_refused() {
    let (stream, group) = start(4).await;
    append(&stream, 0..40).await;
    let one = group.join(MemberSettings::new()).await.unwrap();
    let held = one.read(100, Duration::ZERO).await.unwrap();
    assert_eq!((held.len(), one.assigned()), (40, vec![0, 1, 2, 3]));
    let two = group.join(MemberSettings::new().hand_over(Duration::from_secs(1))).await.unwrap();
    // Nothing moves before the first member reads on.
    assert_eq!(two.read(100, Duration::ZERO).await.unwrap().len(), 0);
    assert_eq!(one.assigned(), [0, 1, 2, 3]);
    let kept: Vec<Position> = held.iter().map(crate::Delivery::position).filter(|at| at.partition() < 2).collect();
    one.commit(kept).await.unwrap();
    assert_eq!(one.read(100, Duration::ZERO).await.unwrap().len(), 0);
    assert_eq!(one.assigned(), [0, 1]);
    let rest = two.read(100, Duration::from_secs(1)).await.unwrap();
    assert!(rest.iter().all(|delivery| delivery.position().partition() >= 2));
    let late = one.commit(held.iter().map(crate::Delivery::position)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Revoked);
    assert!(late.to_string().contains("partitions 2, 3"), "{late}");
    two.commit(rest.iter().map(crate::Delivery::position)).await.unwrap();
    assert!(group.lag().await.unwrap().iter().all(|lag| lag.records == 0));
    assert_eq!(group.reset_offsets(Start::Earliest).await.unwrap_err().kind(), ErrorKind::Conflict);
    one.leave().await;
    drop(two);
    assert!(group.reset_offsets(Start::Earliest).await.unwrap().is_empty());
    assert_eq!(group.lag().await.unwrap().iter().map(|lag| lag.records).sum::<u64>(), 40);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_handed_over_in_time_is_taken() {
    let (stream, group) = start(2).await;
    append(&stream, 0..20).await;
    let one = group.join(MemberSettings::new().hand_over(Duration::from_secs(3))).await.unwrap();
    one.read(100, Duration::ZERO).await.unwrap();
    let two = group.join(MemberSettings::new()).await.unwrap();
    let began = tokio::time::Instant::now();
    let read = two.read(100, Duration::from_secs(10)).await.unwrap();
    assert!(!read.is_empty());
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(one.assigned(), [0]);
}

#[tokio::test(start_paused = true)]
async fn going_back_gives_what_is_not_committed_again() {
    let (stream, group) = start(1).await;
    append(&stream, 0..5).await;
    let one = group.join(MemberSettings::new()).await.unwrap();
    // Before anything was read, too.
    one.seek_to_committed().await.unwrap();
    let mut tail = one.tail();
    let first = tail.receive().await.unwrap();
    one.commit([first.position()]).await.unwrap();
    for _ in 0..3 {
        tail.receive().await.unwrap();
    }
    one.seek_to_committed().await.unwrap();
    let again: Vec<u32> = [tail.receive().await.unwrap(), tail.receive().await.unwrap()]
        .map(|delivery| delivery.into_value().unwrap().number)
        .into();
    assert_eq!(again, [1, 2]);
    let beyond = Position::new(0, first.position().offset() + 5);
    assert_eq!(one.commit([beyond]).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn members_of_a_name_get_their_partitions_back() {
    let (_, group) = start(4).await;
    let named = |name: &str| MemberSettings::new().name(name);
    let one = group.join(named("one")).await.unwrap();
    let two = group.join(named("two")).await.unwrap();
    assert_eq!(group.join(named("two")).await.unwrap_err().kind(), ErrorKind::Conflict);
    one.read(1, Duration::ZERO).await.unwrap();
    let before = one.assigned();
    drop(one);
    two.read(1, Duration::from_secs(5)).await.unwrap();
    let one = group.join(named("one")).await.unwrap();
    one.read(1, Duration::ZERO).await.unwrap();
    assert_eq!(one.assigned(), before);
    drop(one);
    two.read(1, Duration::from_mins(1)).await.unwrap();
    assert_eq!(two.assigned(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn workers_that_come_and_go_handle_everything_in_order_and_commit_it() {
    let (stream, group) = start(8).await;
    append(&stream, 0..400).await;
    let handled: Arc<Mutex<BTreeMap<u32, u32>>> = Arc::default();
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let worker = |stop: &Stop| {
        let notices = notices.clone();
        let worker = group.worker().concurrency(4).read_ahead(20).drain(Duration::from_secs(2)).until(stop);
        worker.with(handled.clone()).on_notice(move |notice| notices.lock().unwrap().push(notice.to_string()))
    };
    let count = async |delivery: crate::Delivery<Order>, handled: Arc<Mutex<BTreeMap<u32, u32>>>| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        *handled.lock().unwrap().entry(delivery.into_value()?.number).or_default() += 1;
        Ok(())
    };
    let all = Stop::new();
    let first = tokio::spawn(worker(&all).run(count));
    let mut others = Vec::new();
    for seconds in [1, 2, 3] {
        let stop = Stop::new();
        others.push(tokio::spawn(worker(&stop).run(count)));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        stop.stop();
    }
    for other in others {
        assert_eq!(other.await.unwrap().unwrap(), Ended::Stopped);
    }
    while group.lag().await.unwrap().iter().any(|lag| lag.records > 0) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    all.stop();
    assert_eq!(first.await.unwrap().unwrap(), Ended::Stopped);
    let handled = handled.lock().unwrap();
    assert_eq!(handled.len(), 400);
    // Everyone had the time to hand over, so nothing came twice.
    assert!(handled.values().all(|times| *times == 1), "{:?}", notices.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_fails_holds_up_what_is_committed_and_then_what_is_read() {
    let (stream, group) = start(1).await;
    append(&stream, 0..100).await;
    let stop = Stop::new();
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = notices.clone();
    let worker = group.worker().uncommitted(10).read_ahead(4).until(&stop);
    let worker = worker.on_notice(move |notice| noted.lock().unwrap().push(notice.to_string()));
    let handled: Arc<Mutex<Vec<u32>>> = Arc::default();
    let working = tokio::spawn(worker.with(handled.clone()).run(
        async |delivery: crate::Delivery<Order>, handled: Arc<Mutex<Vec<u32>>>| {
            let number = delivery.into_value()?.number;
            if number == 3 {
                return Err("no".into());
            }
            handled.lock().unwrap().push(number);
            Ok(())
        },
    ));
    tokio::time::sleep(Duration::from_mins(2)).await;
    stop.stop();
    assert_eq!(working.await.unwrap().unwrap(), Ended::Stopped);
    let count = handled.lock().unwrap().len();
    assert!((10..20).contains(&count), "{count}");
    assert_eq!(group.lag().await.unwrap()[0].records, 97);
    let notices = notices.lock().unwrap();
    assert!(notices.iter().any(|notice| notice.contains("holds up what comes after it")), "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_of_a_stream_that_was_made_anew_holds_nothing_up() {
    for renewed in [true, false] {
        let (stream, group) = start(1).await;
        append(&stream, 0..1).await;
        let stop = Stop::new();
        // The first is under way until it is let go.
        let begun = Arc::new(tokio::sync::Notify::new());
        let let_go = Arc::new(tokio::sync::Notify::new());
        let handled: Arc<Mutex<Vec<u32>>> = Arc::default();
        let state = (begun.clone(), let_go.clone(), handled.clone());
        let worker = group.worker().uncommitted(10).read_ahead(4).concurrency(2).until(&stop).with(state);
        let working = tokio::spawn(worker.run(async |delivery: crate::Delivery<Order>, (begun, let_go, handled)| {
            let number = delivery.into_value()?.number;
            if number == 0 {
                begun.notify_one();
                let_go.notified().await;
                return Err("no".into());
            }
            handled.lock().unwrap().push(number);
            Ok(())
        }));
        begun.notified().await;
        if renewed {
            assert!(stream.delete().await.unwrap());
            stream.ensure(StreamSettings::new().partitions(1)).await.unwrap();
            assert!(group.ensure(Start::Earliest).await.unwrap());
        }
        // The first of them stands where the other stood, and has its key.
        stream.append(&0, &Order { number: 100 }).await.unwrap();
        append(&stream, 101..130).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!handled.lock().unwrap().contains(&100), "one of a key at a time");
        let_go.notify_one();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let left = group.lag().await.unwrap()[0].records;
        stop.stop();
        assert_eq!(working.await.unwrap().unwrap(), Ended::Stopped);
        let mut handled = handled.lock().unwrap().clone();
        handled.sort_unstable();
        if renewed {
            assert_eq!((left, handled), (0, (100..130).collect()));
        } else {
            // The control: of a stream that is still there it holds up what is behind it.
            assert_eq!((left, handled.contains(&100)), (31, false));
            assert!(handled.len() < 20, "{handled:?}");
        }
    }
}

/// A worker of 1,000 records of each of two partitions, one a millisecond, whose commits are counted by what they change.
struct Busy {
    stream: Stream<Order, Memory>,
    group: CommitGroup<Order, Memory>,
    stop: Stop,
    working: tokio::task::JoinHandle<Result<Ended, crate::Error>>,
}

async fn busy() -> Busy {
    let (stream, group) = start(2).await;
    append(&stream, 0..2_000).await;
    let stop = Stop::new();
    let worker = group.worker().concurrency(1).until(&stop).with(());
    let working = tokio::spawn(worker.run(async |_, ()| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }));
    Busy { stream, group, stop, working }
}

async fn left(group: &CommitGroup<Order, Memory>) -> u64 {
    group.lag().await.unwrap().iter().map(|lag| lag.records).sum()
}

#[tokio::test(start_paused = true)]
async fn a_second_of_work_makes_some_twenty_commits() {
    let Busy { group, stop, working, .. } = busy().await;
    let before = left(&group).await;
    let (mut last, mut commits) = (before, 0);
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = left(&group).await;
        commits += u32::from(now != last);
        last = now;
    }
    assert!(before - last > 400, "{before} of {last} are left");
    assert!((15..=21).contains(&commits), "{commits} commits");
    stop.stop();
    assert_eq!(working.await.unwrap().unwrap(), Ended::Stopped);
}

#[tokio::test(start_paused = true)]
async fn neither_a_stop_nor_what_moves_waits_for_a_turn_to_commit() {
    for millis in [100, 110, 120, 130, 140] {
        let Busy { stream, group, stop, working } = busy().await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let joins = tokio::time::Instant::now();
        let second = group.join(MemberSettings::new()).await.unwrap();
        second.read(1, Duration::from_secs(10)).await.unwrap();
        let moved = joins.elapsed();
        // A worker without room looks for news after 20 ms.
        assert!(moved < Duration::from_millis(25), "it moved after {moved:?}");
        second.leave().await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let stops = tokio::time::Instant::now();
        stop.stop();
        assert_eq!(working.await.unwrap().unwrap(), Ended::Stopped);
        let stopped = stops.elapsed();
        assert!(stopped < Duration::from_millis(15), "it stopped after {stopped:?}");
        assert!(stream.delete().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_moves_once_the_last_of_it_has_failed() {
    let (stream, group) = start(2).await;
    append(&stream, 0..20).await;
    let stop = Stop::new();
    let worker = group.worker().concurrency(20).drain(Duration::from_secs(30)).until(&stop).with(());
    let working = tokio::spawn(worker.run(async |_, ()| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err("no".into())
    }));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let joins = tokio::time::Instant::now();
    let second = group.join(MemberSettings::new()).await.unwrap();
    assert!(!second.read(100, Duration::from_mins(1)).await.unwrap().is_empty());
    let moved = joins.elapsed();
    assert!(moved < Duration::from_millis(950), "it moved after {moved:?}");
    stop.stop();
    assert_eq!(working.await.unwrap().unwrap(), Ended::Stopped);
}
