#![allow(clippy::disallowed_methods, reason = "tests spawn")]

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Memory;
use crate::{
    AckGroup, Broker, Cause, Config, Delivery, Ended, ErrorKind, Gap, Namespace, Start, Stop, Stream, StreamSettings,
    WorkerNotice, stream_spec,
};

#[stream_spec(name = "work.items", version = 1, key = u32, requires(ack_groups), crate = crate)]
#[derive(Serialize, Deserialize)]
struct Item {
    number: u32,
}

#[derive(Clone)]
struct Bench {
    memory: Memory,
    broker: Broker<Memory>,
    stream: Stream<Item, Memory>,
    group: AckGroup<Item, Memory>,
    stop: Stop,
    handled: Arc<Mutex<Vec<u32>>>,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    async fn start() -> Self {
        let memory = Memory::new();
        let config = Config::new(Namespace::new("work", "test").unwrap()).random(|| 0);
        let broker = Broker::new(memory.clone(), config).unwrap();
        let stream = Item::stream(&broker).unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        let group = stream.ack_group("crew").unwrap();
        group.ensure(Start::Earliest).await.unwrap();
        let stop = Stop::new();
        Self { memory, broker, stream, group, stop, handled: Arc::default(), notices: Arc::default() }
    }

    async fn append(&self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.stream.append(&(number % 10), &Item { number }).await.unwrap();
        }
    }

    fn worker(&self, name: &str) -> super::Worker<Item, Memory, Self> {
        let notices = self.notices.clone();
        self.group.worker(name).with(self.clone()).until(&self.stop).on_notice(move |notice| {
            let text = match notice {
                WorkerNotice::Ready => "ready".to_owned(),
                WorkerNotice::Gap(gap) => format!("gap {}", gap.cause.word()),
                WorkerNotice::Unsettled { position, attempt, error } => {
                    format!("unsettled {position} {attempt} {}", error.kind().word())
                }
                WorkerNotice::Lost { positions } => format!("lost {}", positions.len()),
                WorkerNotice::Claimed { positions } => format!("claimed {}", positions.len()),
                WorkerNotice::TakenOver { positions } => format!("taken over {}", positions.len()),
                // Of commit groups and durables.
                other @ (WorkerNotice::Assigned { .. }
                | WorkerNotice::Retrying { .. }
                | WorkerNotice::Undelivered { .. }
                | WorkerNotice::Revoked { .. }
                | WorkerNotice::Trimmed { .. }
                | WorkerNotice::HeldUp { .. }) => other.to_string(),
                WorkerNotice::Interrupted { error } | WorkerNotice::Failed { error, .. } => {
                    error.kind().word().to_owned()
                }
            };
            notices.lock().unwrap().push(text);
        })
    }

    fn note(&self, number: u32) -> usize {
        let mut handled = self.handled.lock().unwrap();
        handled.push(number);
        handled.len()
    }

    fn handled(&self) -> Vec<u32> {
        self.handled.lock().unwrap().clone()
    }

    fn noticed(&self, what: &str) -> usize {
        self.notices.lock().unwrap().iter().filter(|notice| notice.contains(what)).count()
    }

    async fn pending(&self) -> u64 {
        self.group.depth().await.unwrap().pending
    }
}

/// A handler that notes the number and stops the worker at so many.
#[allow(clippy::needless_pass_by_value, reason = "as a handler gets it")]
fn note(delivery: Delivery<Item>, bench: Bench, until: usize) -> Ready<Result<(), crate::HandlerError>> {
    let number = delivery.into_value().expect("a worker's deliveries have decoded").number;
    if bench.note(number) >= until {
        bench.stop.stop();
    }
    ready(Ok(()))
}

#[tokio::test(start_paused = true)]
async fn what_is_handled_is_acknowledged_in_order() {
    let bench = Bench::start().await;
    bench.append(0..1_000).await;
    let ended = bench.worker("a").run(|delivery, bench| note(delivery, bench, 1_000)).await.unwrap();
    assert_eq!(ended, Ended::Stopped);
    assert_eq!(bench.handled(), (0..1_000).collect::<Vec<_>>());
    assert_eq!(bench.pending().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_order_and_run_at_once() {
    let bench = Bench::start().await;
    bench.append(0..2_000).await;
    let running: Arc<Mutex<(usize, usize)>> = Arc::default();
    let seen = running.clone();
    let worker = bench.worker("a").concurrency(8);
    let counting = move |delivery: Delivery<Item>, bench: Bench| {
        let running = running.clone();
        async move {
            {
                let mut running = running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            tokio::task::yield_now().await;
            running.lock().unwrap().0 -= 1;
            note(delivery, bench, 2_000).await
        }
    };
    worker.run(counting).await.unwrap();
    let mut last: HashMap<u32, u32> = HashMap::new();
    let handled = bench.handled();
    for number in &handled {
        if let Some(before) = last.insert(number % 10, *number) {
            assert_eq!(before + 10, *number);
        }
    }
    assert_eq!(handled.len(), 2_000);
    assert!(seen.lock().unwrap().1 > 1, "nothing ran at once");
    assert_eq!(bench.pending().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_pauses_its_key_and_stays_unsettled() {
    let bench = Bench::start().await;
    bench.append(0..100).await;
    let picky = async |delivery: Delivery<Item>, bench: Bench| match delivery.value()?.number {
        3 => Err("not this one".into()),
        4 => panic!("nor this one"),
        5 => std::future::pending().await,
        _ => note(delivery, bench, 70).await,
    };
    bench.worker("a").run(picky).await.unwrap();
    let handled = bench.handled();
    assert!(handled.iter().all(|number| ![3, 4, 5].contains(&(number % 10))), "{handled:?}");
    assert_eq!(bench.pending().await, 30);
    for (number, kind) in [(4, "callback"), (5, "panicked"), (6, "timeout")] {
        assert_eq!(bench.noticed(&format!("unsettled 0:{number} 1 {kind}")), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_wont_handle_goes_to_others_and_counts_no_attempt() {
    let bench = Bench::start().await;
    bench.append([0, 10, 20]).await;
    let broken = bench.worker("broken").claim_after(Duration::from_secs(1));
    let broken = tokio::spawn(broken.run(async |_, _| Err("broken".into())));
    while bench.noticed("unsettled") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Long enough that it has come upon its own again and again.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((bench.noticed("unsettled"), bench.noticed("claimed")), (1, 0));
    let attempts: Arc<Mutex<Vec<(u32, u32)>>> = Arc::default();
    let noted = attempts.clone();
    let sound = bench.worker("sound").claim_after(Duration::from_secs(1)).run(move |delivery, bench| {
        noted.lock().unwrap().push((delivery.value().unwrap().number, delivery.attempt()));
        note(delivery, bench, 3)
    });
    sound.await.unwrap();
    broken.await.unwrap().unwrap();
    let mut attempts = attempts.lock().unwrap().clone();
    attempts.sort_unstable();
    assert_eq!(attempts, [(0, 2), (10, 1), (20, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_told_before_it_is_handled() {
    let bench = Bench::start().await;
    bench.append(0..3).await;
    let dead = bench.group.consumer("dead").unwrap();
    assert_eq!(dead.read(3, Duration::ZERO).await.unwrap().len(), 3);
    let told: Arc<Mutex<Vec<(usize, usize)>>> = Arc::default();
    let (seen, noting) = (bench.clone(), told.clone());
    let worker = bench.group.worker("a").claim_after(Duration::from_millis(30)).with(bench.clone()).until(&bench.stop);
    let worker = worker.on_notice(move |notice| {
        if let WorkerNotice::Claimed { positions } = notice {
            // Long enough for a handler to begin.
            std::thread::sleep(Duration::from_millis(50));
            noting.lock().unwrap().push((positions.len(), seen.handled().len()));
        }
    });
    worker.run(|delivery, bench| note(delivery, bench, 3)).await.unwrap();
    assert_eq!(told.lock().unwrap()[0], (3, 0));
}

#[tokio::test(start_paused = true)]
async fn too_many_paused_keys_end_the_worker() {
    let bench = Bench::start().await;
    bench.append(0..10).await;
    let failed = bench.worker("a").paused_keys(3).run(async |_, _| Err("no".into())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Overloaded);
}

#[tokio::test(start_paused = true)]
async fn its_own_pending_entries_come_first_and_others_once_they_are_idle() {
    let bench = Bench::start().await;
    bench.append(0..9).await;
    let taken = bench.group.consumer("a").unwrap().read(3, Duration::ZERO).await.unwrap();
    assert_eq!(taken.len(), 3);
    let taken = bench.group.consumer("b").unwrap().read(3, Duration::ZERO).await.unwrap();
    assert_eq!(taken.len(), 3);
    let attempts: Arc<Mutex<Vec<(u32, u32)>>> = Arc::default();
    let noted = attempts.clone();
    let handler = move |delivery: Delivery<Item>, bench: Bench| {
        noted.lock().unwrap().push((delivery.value().unwrap().number, delivery.attempt()));
        note(delivery, bench, 9)
    };
    bench.worker("a").run(handler).await.unwrap();
    let expected: Vec<_> = [(0, 2), (1, 2), (2, 2), (6, 1), (7, 1), (8, 1), (3, 2), (4, 2), (5, 2)].into();
    assert_eq!(*attempts.lock().unwrap(), expected);
    assert_eq!(bench.noticed("claimed 3"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_keeps_its_entry() {
    let bench = Bench::start().await;
    bench.append(0..2).await;
    let slow = bench.worker("slow").claim_after(Duration::from_secs(3)).run(async |delivery, bench| {
        tokio::time::sleep(Duration::from_secs(20)).await;
        note(delivery, bench, 2).await
    });
    let quick = bench.worker("quick").claim_after(Duration::from_secs(3)).run(async |_, _| Err("claimed".into()));
    let (slow, quick) = tokio::join!(slow, quick);
    slow.unwrap();
    quick.unwrap();
    assert_eq!(bench.noticed("unsettled"), 0);
    assert_eq!(bench.handled(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_handlers_finish_and_gives_back_the_rest() {
    let bench = Bench::start().await;
    bench.append(0..100).await;
    let handler = async |delivery: Delivery<Item>, bench: Bench| {
        bench.stop.stop();
        tokio::time::sleep(Duration::from_secs(5)).await;
        note(delivery, bench, 100).await
    };
    assert_eq!(bench.worker("a").run(handler).await.unwrap(), Ended::Stopped);
    assert_eq!(bench.handled(), [0]);
    // At once, and as if they had not been delivered.
    let claimed = bench.group.consumer("b").unwrap().claim(Duration::from_hours(1), 1_000).await.unwrap();
    assert_eq!(claimed.deliveries.len(), 99);
    assert!(claimed.deliveries.iter().all(|delivery| delivery.attempt() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_handler_is_dropped_when_the_budget_is_over() {
    let bench = Bench::start().await;
    bench.append(0..3).await;
    let handler = async |_: Delivery<Item>, bench: Bench| {
        bench.stop.stop();
        std::future::pending().await
    };
    let began = tokio::time::Instant::now();
    let worker = bench.worker("a").drain(Duration::from_secs(2)).deadline(Duration::from_mins(1));
    worker.run(handler).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    let claimed = bench.group.consumer("b").unwrap().claim(Duration::from_hours(1), 10).await.unwrap();
    assert_eq!(claimed.deliveries.len(), 3);
    bench.broker.close(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_and_a_lost_group_are_gaps() {
    let bench = Bench::start().await;
    bench.append(0..5).await;
    let gaps: Arc<Mutex<Vec<Cause>>> = Arc::default();
    let told = gaps.clone();
    let worker = bench.worker("a").on_gap(move |gap: Gap, _| {
        told.lock().unwrap().push(gap.cause);
        async { Ok(()) }
    });
    let running = tokio::spawn(worker.run(|delivery, bench| note(delivery, bench, 15)));
    let handled = async |count: usize| {
        while bench.handled().len() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    handled(5).await;
    bench.memory.disconnect();
    bench.append(5..10).await;
    handled(10).await;
    // Long enough that it has looked up where everything is acknowledged.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(bench.group.delete().await.unwrap());
    bench.append(10..15).await;
    assert_eq!(running.await.unwrap().unwrap(), Ended::Stopped);
    assert_eq!(bench.handled(), (0..15).collect::<Vec<_>>());
    assert_eq!(*gaps.lock().unwrap(), [Cause::Disconnected, Cause::Vanished]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_made_anew_as_it_was_ensured() {
    let bench = Bench::start().await;
    bench.append(0..5).await;
    let running = tokio::spawn(bench.worker("a").run(|delivery, bench| note(delivery, bench, 8)));
    while bench.noticed("ready") == 0 || bench.handled().len() < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Another broker removes it, so that this one still knows how it was ensured.
    let other = Broker::new(bench.memory.clone(), Config::new(Namespace::new("work", "test").unwrap())).unwrap();
    assert!(Item::stream(&other).unwrap().delete().await.unwrap());
    while bench.noticed("gap vanished") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.append(5..8).await;
    running.await.unwrap().unwrap();
    assert_eq!(bench.handled(), (0..8).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_was_never_there_is_an_error() {
    let bench = Bench::start().await;
    let group = bench.stream.ack_group("nobody").unwrap();
    let failed = group.worker("a").run(async |_, ()| Ok(())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Absent);
    let failed = group.worker("a").concurrency(0).read_ahead(0).run(async |_, ()| Ok(())).await.unwrap_err();
    let text = failed.to_string();
    assert!(text.contains("`concurrency` is 0") && text.contains("`read_ahead` is 0"), "{text}");
    let failed = group.worker("a").on_gap(async |_, ()| Ok(())).with(1).run(async |_, _| Ok(())).await.unwrap_err();
    assert!(failed.to_string().contains("`on_gap`"), "{failed}");
    let failed = group.worker("No Name").run(async |_, ()| Ok(())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn batches_hold_what_waits_and_are_settled_as_one() {
    let bench = Bench::start().await;
    bench.append(0..300).await;
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noted = sizes.clone();
    let handler = move |deliveries: Vec<Delivery<Item>>, bench: Bench| {
        noted.lock().unwrap().push(deliveries.len());
        async move {
            let numbers = deliveries.into_iter().map(Delivery::into_value).collect::<Result<Vec<_>, _>>()?;
            if numbers.iter().any(|item| item.number == 77) {
                bench.stop.stop();
                return Err("this batch".into());
            }
            for item in &numbers {
                bench.note(item.number);
            }
            Ok(())
        }
    };
    bench.worker("a").run_batches(50, handler).await.unwrap();
    assert!(sizes.lock().unwrap().iter().all(|size| (1..=50).contains(size)));
    // All ten keys were in the batch that failed, so nothing behind it is handled.
    assert_eq!(bench.handled(), (0..50).collect::<Vec<_>>());
    let depth = bench.group.depth().await.unwrap();
    assert_eq!(depth.pending + depth.unread.unwrap(), 250);
}

#[tokio::test(start_paused = true)]
async fn dropping_it_drops_its_handlers_and_closing_ends_it() {
    let bench = Bench::start().await;
    bench.append(0..3).await;
    let running = bench.worker("a").concurrency(2).run(async |_, _| std::future::pending().await);
    assert!(tokio::time::timeout(Duration::from_secs(1), running).await.is_err());
    while bench.broker.stats().tasks > 0 {
        tokio::task::yield_now().await;
    }
    let running = tokio::spawn(bench.worker("b").run(async |_, _| std::future::pending().await));
    while bench.broker.stats().callbacks == 0 {
        tokio::task::yield_now().await;
    }
    bench.broker.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), Ended::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_handlers_finish_though_nothing_can_be_settled() {
    let bench = Bench::start().await;
    bench.append(0..2).await;
    let handler = async |delivery: Delivery<Item>, bench: Bench| {
        if delivery.value()?.number == 1 {
            bench.group.delete().await?;
            bench.stop.stop();
            tokio::time::sleep(Duration::from_secs(5)).await;
        } else {
            bench.stop.stopped().await;
        }
        note(delivery, bench, 2).await
    };
    assert_eq!(bench.worker("a").concurrency(2).run(handler).await.unwrap(), Ended::Stopped);
    assert_eq!(bench.handled(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_settled_while_the_history_is_read_is_not_handled_again() {
    let bench = Bench::start().await;
    bench.append(0..20).await;
    let handler = async |delivery: Delivery<Item>, bench: Bench| {
        // While it is out of reach nothing is settled, so that all is in the history afterwards.
        bench.memory.refuse(bench.handled().len() < 19);
        tokio::time::sleep(Duration::from_millis(10)).await;
        note(delivery, bench, 21).await
    };
    let running = tokio::spawn(bench.worker("a").run(handler));
    while bench.handled().len() < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while bench.noticed("gap") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.append([20]).await;
    running.await.unwrap().unwrap();
    assert_eq!(bench.handled(), (0..21).collect::<Vec<_>>());
    assert_eq!(bench.pending().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_panics_ends_the_worker_and_says_so() {
    for concurrency in [1, 3] {
        let bench = Bench::start().await;
        bench.append(0..10).await;
        let worker = bench.group.worker("a").concurrency(concurrency).on_notice(|notice| {
            assert!(!matches!(notice, WorkerNotice::Unsettled { .. }), "not expected");
        });
        let failed = worker.run(async |_, ()| Err("no".into())).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Panicked);
        assert!(failed.to_string().contains("not expected"), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_nobody_polls_holds_up_no_close() {
    let bench = Bench::start().await;
    let mut reader = bench.stream.tail(Start::Earliest);
    let mut tail = bench.group.consumer("a").unwrap().tail(false);
    let short = Duration::from_millis(50);
    assert!(tokio::time::timeout(short, reader.receive()).await.is_err());
    assert!(tokio::time::timeout(short, tail.receive()).await.is_err());
    bench.broker.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(reader.receive().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(tail.receive().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_goes_after_a_reader_was_told_is_told_again() {
    let bench = Bench::start().await;
    bench.stream.delete().await.unwrap();
    bench.stream.ensure(StreamSettings::new().max_len(10)).await.unwrap();
    bench.append(0..3).await;
    let mut reader = bench.stream.tail(Start::Earliest);
    for number in 0..3 {
        assert_eq!(reader.receive().await.unwrap().value().unwrap().number, number);
    }
    for (more, first) in [(3..30, 20), (30..60, 50)] {
        bench.append(more).await;
        let trimmed = reader.receive().await.unwrap_err();
        assert_eq!(trimmed.kind(), ErrorKind::Trimmed { certain: true });
        let base = trimmed.first_left().unwrap().offset();
        let next = reader.receive().await.unwrap();
        assert_eq!((next.position().offset(), next.value().unwrap().number), (base, first));
        // The rest of the page is read before more goes.
        for _ in 0..9 {
            reader.receive().await.unwrap();
        }
    }
    bench.append(60..90).await;
    assert_eq!(reader.receive().await.unwrap_err().kind(), ErrorKind::Trimmed { certain: true });
    bench.append(90..120).await;
    assert_eq!(reader.receive().await.unwrap_err().kind(), ErrorKind::Trimmed { certain: true });
    assert_eq!(reader.receive().await.unwrap().value().unwrap().number, 110);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_anything_is_handled_gives_back_what_was_pending() {
    let bench = Bench::start().await;
    bench.append(0..3).await;
    bench.group.consumer("a").unwrap().read(3, Duration::ZERO).await.unwrap();
    let stop = bench.stop.clone();
    // By then the first page of what was pending is here.
    let worker = bench.worker("a").on_notice(move |notice| {
        if matches!(notice, WorkerNotice::Ready) {
            stop.stop();
        }
    });
    assert_eq!(worker.run(|delivery, bench| note(delivery, bench, 1)).await.unwrap(), Ended::Stopped);
    assert!(bench.handled().is_empty());
    let claimed = bench.group.consumer("b").unwrap().claim(Duration::from_hours(1), 10).await.unwrap();
    assert_eq!(claimed.deliveries.iter().map(Delivery::attempt).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn a_delay_is_told_in_whole_milliseconds() {
    let error = crate::Error::new(ErrorKind::Timeout, crate::Operation::Work);
    let position = crate::Position::new(0, 7);
    let after = Duration::from_nanos(160_467_956);
    let notice = WorkerNotice::Retrying { position, attempt: 1, after, error: &error };
    assert_eq!(notice.to_string(), "`0:7` failed at attempt 1 and comes again after 160ms: work: timed out");
}
