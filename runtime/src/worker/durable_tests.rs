#![allow(clippy::disallowed_methods, reason = "tests spawn")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::backend::Memory;
use crate::capability::{BoundDurable, Pulled, Ticket, Verdict};
use crate::{
    Append, Broker, Config, Durable, DurableOwner, DurableSettings, Ended, ErrorKind, HandlerError, Limits, Namespace,
    Position, Stop, Stream, StreamSettings, SupervisePolicy, WorkerNotice, stream_spec,
};

#[stream_spec(name = "work.jobs", version = 1, key = u32, requires(cursors), crate = crate)]
#[derive(Serialize, Deserialize)]
struct Job {
    number: u32,
}

#[stream_spec(name = "work.jobs", version = 1, key = u32, crate = crate)]
#[derive(Serialize, Deserialize)]
struct NoJob {
    text: String,
}

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Bench {
    memory: Memory,
    broker: Broker<Memory>,
    jobs: Stream<Job, Memory>,
    durable: Durable<Job, Memory>,
    stop: Stop,
    /// Number and attempt of each call.
    calls: Arc<Mutex<Vec<(u32, u32)>>>,
    notices: Arc<Mutex<Vec<String>>>,
}

type Worker = super::Worker<Job, Memory, Bench, Durable<Job, Memory>>;

impl Bench {
    async fn start(settings: DurableSettings) -> Self {
        let memory = Memory::new();
        let config = Config::new(Namespace::new("work", "test").unwrap()).random(|| u64::MAX);
        let broker = Broker::new(memory.clone(), config).unwrap();
        let jobs = Job::stream(&broker).unwrap();
        jobs.ensure(StreamSettings::new()).await.unwrap();
        let durable = jobs.durable(&DurableOwner::module("crew").unwrap()).unwrap();
        durable.ensure(settings).await.unwrap();
        Self { memory, broker, jobs, durable, stop: Stop::new(), calls: Arc::default(), notices: Arc::default() }
    }

    async fn append(&self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.jobs.append(&(number % 10), &Job { number }).await.unwrap();
        }
    }

    fn worker(&self) -> Worker {
        let notices = self.notices.clone();
        self.durable.worker().with(self.clone()).until(&self.stop).on_notice(move |notice| {
            let text = match notice {
                WorkerNotice::Gap(gap) => format!("gap {}", gap.cause.word()),
                WorkerNotice::Unsettled { position, attempt, error } => {
                    format!("unsettled {} {attempt} {}", position.offset(), error.kind().word())
                }
                WorkerNotice::Retrying { position, attempt, after, .. } => {
                    format!("retrying {} {attempt} {after:?}", position.offset())
                }
                WorkerNotice::Undelivered { position } => format!("undelivered {}", position.offset()),
                WorkerNotice::HeldUp { position } => format!("held up {}", position.offset()),
                WorkerNotice::Trimmed { after, first, .. } => {
                    format!("trimmed {:?} {}", after.map(crate::Position::offset), first.offset())
                }
                other => other.to_string(),
            };
            notices.lock().unwrap().push(text);
        })
    }

    fn call(&self, delivery: &crate::Delivery<Job>) -> usize {
        let mut calls = self.calls.lock().unwrap();
        calls.push((delivery.value().unwrap().number, delivery.attempt()));
        calls.len()
    }

    fn numbers(&self) -> Vec<u32> {
        self.calls.lock().unwrap().iter().map(|(number, _)| *number).collect()
    }

    fn noticed(&self, what: &str) -> usize {
        self.notices.lock().unwrap().iter().filter(|notice| notice.contains(what)).count()
    }

    async fn left(&self) -> (u64, u64) {
        let info = self.durable.info().await.unwrap();
        (info.waiting, info.in_flight)
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..10_000 {
            if holds().await {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: {:?}", self.notices.lock().unwrap());
    }
}

fn failed() -> Result<(), HandlerError> {
    Err("it failed".into())
}

#[tokio::test(start_paused = true)]
async fn what_is_handled_is_acknowledged_in_order() {
    let bench = Bench::start(DurableSettings::new().in_flight(64)).await;
    bench.append(0..500).await;
    let worker = bench.worker().run(async |delivery, bench: Bench| {
        if bench.call(&delivery) == 500 {
            bench.stop.stop();
        }
        Ok(())
    });
    assert_eq!(worker.await.unwrap(), Ended::Stopped);
    assert_eq!(bench.numbers(), (0..500).collect::<Vec<_>>());
    assert_eq!(bench.left().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_order_though_some_fail_and_come_again() {
    let bench = Bench::start(DurableSettings::new().in_flight(256)).await;
    bench.append(0..1_000).await;
    let done: Arc<Mutex<Vec<u32>>> = Arc::default();
    let seen = done.clone();
    let worker = bench.worker().concurrency(8).retry_after(Duration::from_millis(5), Duration::from_millis(20));
    let handling = move |delivery: crate::Delivery<Job>, bench: Bench| {
        let done = done.clone();
        async move {
            bench.call(&delivery);
            tokio::task::yield_now().await;
            let number = delivery.value()?.number;
            if number % 7 == 3 && delivery.attempt() < 3 {
                return failed();
            }
            let mut done = done.lock().unwrap();
            done.push(number);
            if done.len() == 1_000 {
                bench.stop.stop();
            }
            Ok(())
        }
    };
    tokio::time::timeout(SECOND * 60, worker.run(handling)).await.expect("it goes on").unwrap();
    let mut last: HashMap<u32, u32> = HashMap::new();
    for number in seen.lock().unwrap().iter() {
        if let Some(before) = last.insert(number % 10, *number) {
            assert!(before < *number, "{before} after {number}");
        }
    }
    assert_eq!(bench.left().await, (0, 0));
    assert_eq!(bench.noticed("retrying"), 2 * (0..1_000).filter(|n| n % 7 == 3).count());
}

#[tokio::test(start_paused = true)]
async fn attempts_are_spaced_as_the_worker_promises() {
    let bench = Bench::start(DurableSettings::new().in_flight(4)).await;
    bench.append([0, 10, 1]).await;
    let begun = Instant::now();
    let times: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let seen = times.clone();
    let worker = bench.worker().retry_after(SECOND, SECOND * 3).run(move |delivery, bench: Bench| {
        let times = times.clone();
        async move {
            bench.call(&delivery);
            let number = delivery.value()?.number;
            if number == 0 {
                times.lock().unwrap().push(begun.elapsed());
            }
            if number == 0 && delivery.attempt() < 5 {
                return failed();
            }
            if number == 10 {
                bench.stop.stop();
            }
            Ok(())
        }
    });
    worker.await.unwrap();
    let calls = bench.calls.lock().unwrap().clone();
    assert_eq!(calls, [(0, 1), (1, 1), (0, 2), (0, 3), (0, 4), (0, 5), (10, 1)], "another key passes, its own waits");
    // 1, 2, 3 and 3 s between them.
    let seen: Vec<_> = seen.lock().unwrap().iter().map(Duration::as_secs).collect();
    assert_eq!(seen, [0, 1, 3, 6, 9]);
    assert_eq!(bench.left().await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_kept_alive_and_so_is_what_waits() {
    let bench = Bench::start(DurableSettings::new().in_flight(8).backoff([SECOND, SECOND * 2])).await;
    bench.append([0, 10, 20, 1]).await;
    let worker = bench.worker().deadline(SECOND * 60).run(async |delivery, bench: Bench| {
        if bench.call(&delivery) == 4 {
            bench.stop.stop();
        }
        sleep(SECOND * 10).await;
        Ok(())
    });
    worker.await.unwrap();
    assert_eq!(*bench.calls.lock().unwrap(), [(0, 1), (10, 1), (20, 1), (1, 1)]);
    assert_eq!(bench.left().await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_cant_be_handled_is_kept_and_told_and_gone_back_at_a_stop() {
    let bench = Bench::start(DurableSettings::new().in_flight(4).max_deliver(3)).await;
    let other = NoJob::stream(
        &Broker::new(bench.memory.clone(), Config::new(Namespace::new("work", "test").unwrap())).unwrap(),
    );
    let no_job = NoJob { text: "no number".to_owned() };
    other.unwrap().append_with(Append::new(&0, &no_job)).await.unwrap();
    bench.append([10, 1, 11]).await;
    let run =
        tokio::spawn(bench.worker().concurrency(2).retry_after(SECOND, SECOND).run(async |delivery, bench: Bench| {
            bench.call(&delivery);
            if delivery.value()?.number == 1 { failed() } else { Ok(()) }
        }));
    bench.until("both keys are paused", async || bench.noticed("unsettled") == 2).await;
    bench.until("it is told that nothing goes on", async || bench.noticed("held up 1") == 1).await;
    assert_eq!(*bench.calls.lock().unwrap(), [(1, 1), (1, 2), (1, 3)]);
    assert_eq!((bench.noticed("unsettled 1 1 malformed"), bench.noticed("unsettled 3 3 callback")), (1, 1));
    assert_eq!(bench.left().await, (0, 4));
    // Kept for as long as it runs.
    sleep(SECOND * 300).await;
    assert_eq!(bench.left().await, (0, 4));
    bench.stop.stop();
    assert_eq!(run.await.unwrap().unwrap(), Ended::Stopped);
    assert_eq!(bench.noticed("undelivered 3"), 1);
    // Those that had attempts left come again at once.
    let again = bench.durable.bind(crate::Operation::Consume).await.unwrap();
    let pulled = crate::capability::BoundDurable::pull(&again, 10, Duration::ZERO).await.unwrap();
    let attempts: Vec<_> = pulled
        .iter()
        .map(|pulled| match pulled {
            crate::capability::Pulled::Delivery(stored, _) => (stored.position.offset(), stored.attempt),
            crate::capability::Pulled::Exhausted(position) => (position.offset(), 0),
            crate::capability::Pulled::Trimmed { first, .. } => (first.offset(), 0),
        })
        .collect();
    assert_eq!(attempts, [(3, 0), (1, 2), (2, 2), (4, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_durable_that_goes_is_made_anew_behind_what_is_settled() {
    let bench = Bench::start(DurableSettings::new().in_flight(4)).await;
    bench.append(0..20).await;
    let run = tokio::spawn(bench.worker().run(async |delivery, bench: Bench| {
        bench.call(&delivery);
        sleep(Duration::from_millis(100)).await;
        Ok(())
    }));
    // Longer than it takes to look up what is settled.
    bench.until("some are handled", async || bench.numbers().len() == 15).await;
    let config = Config::new(Namespace::new("work", "test").unwrap());
    let stranger = Job::stream(&Broker::new(bench.memory.clone(), config).unwrap()).unwrap();
    assert!(stranger.durable(&DurableOwner::module("crew").unwrap()).unwrap().delete().await.unwrap());
    bench.append(20..25).await;
    bench.until("all are handled", async || bench.numbers().contains(&24) && bench.left().await == (0, 0)).await;
    bench.stop.stop();
    run.await.unwrap().unwrap();
    let mut numbers = bench.numbers();
    assert!(numbers.len() < 40, "it began at what was settled: {numbers:?}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (0..25).collect::<Vec<_>>());
    assert_eq!(bench.noticed("gap vanished"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_before_it_is_handed_out_is_told() {
    let bench = Bench::start(DurableSettings::new()).await;
    bench.append(1..=5).await;
    bench.jobs.update(StreamSettings::new().max_len(2)).await.unwrap();
    bench.append([6]).await;
    let worker = bench.worker().run(async |delivery, bench: Bench| {
        if bench.call(&delivery) == 2 {
            bench.stop.stop();
        }
        Ok(())
    });
    assert_eq!(worker.await.unwrap(), Ended::Stopped);
    assert_eq!(bench.numbers(), [5, 6]);
    assert_eq!((bench.noticed("trimmed"), bench.noticed("trimmed None 5")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn interruptions_are_told_and_nothing_is_lost() {
    let bench = Bench::start(DurableSettings::new().in_flight(16).ack_wait(SECOND * 2)).await;
    let policy = SupervisePolicy { max: Duration::from_millis(200), ..SupervisePolicy::default() };
    let run = tokio::spawn(bench.worker().concurrency(4).backoff(policy).run(async |delivery, bench: Bench| {
        bench.call(&delivery);
        sleep(Duration::from_millis(7)).await;
        Ok(())
    }));
    for round in 0..10 {
        bench.append(round * 30..(round + 1) * 30).await;
        bench.memory.disconnect();
        sleep(Duration::from_millis(50)).await;
        bench.memory.refuse(true);
        sleep(SECOND).await;
        bench.memory.refuse(false);
    }
    bench.until("all is handled", async || bench.left().await == (0, 0)).await;
    bench.stop.stop();
    run.await.unwrap().unwrap();
    let mut numbers = bench.numbers();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert!(bench.noticed("gap disconnected") >= 5, "{:?}", bench.notices.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_handlers_finish_and_gives_back_the_rest() {
    let bench = Bench::start(DurableSettings::new().in_flight(16)).await;
    bench.append(0..10).await;
    let run = tokio::spawn(bench.worker().concurrency(2).run(async |delivery, bench: Bench| {
        if bench.call(&delivery) == 2 {
            bench.stop.stop();
        }
        sleep(SECOND).await;
        Ok(())
    }));
    run.await.unwrap().unwrap();
    assert_eq!(bench.numbers(), [0, 1]);
    assert_eq!(bench.left().await, (0, 8), "given back and due at once");
    let stop = Stop::new();
    let again = bench.durable.worker().until(&stop).with((bench.clone(), stop.clone()));
    again
        .run(async |delivery, (bench, stop): (Bench, Stop)| {
            assert_eq!(delivery.attempt(), 2);
            if bench.call(&delivery) == 10 {
                stop.stop();
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(bench.numbers(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_isnt_back_in_time_holds_its_key_up_no_longer() {
    let bench = Bench::start(DurableSettings::new().in_flight(16)).await;
    let other = bench.durable.bind(crate::Operation::Consume).await.unwrap();
    bench.append([1]).await;
    let Some(Pulled::Delivery(_, ticket)) = other.pull(1, Duration::ZERO).await.unwrap().pop() else { panic!() };
    assert!(other.settle(vec![(ticket.clone(), Verdict::Ack)]).await[0].is_ok());
    bench.append([0, 10]).await;
    let run = tokio::spawn(bench.worker().retry_after(SECOND, SECOND).run(async |delivery, bench: Bench| {
        bench.call(&delivery);
        if delivery.value()?.number == 0 { failed() } else { Ok(()) }
    }));
    bench.until("it failed", async || bench.noticed("retrying") == 1).await;
    // Another worker is faster.
    sleep(Duration::from_millis(500)).await;
    let ticket = Ticket { position: Position::new(0, 2), ..ticket };
    assert!(other.settle(vec![(ticket, Verdict::Ack)]).await[0].is_ok());
    let begun = Instant::now();
    bench.until("the key goes on", async || bench.numbers() == [0, 10]).await;
    let took = begun.elapsed();
    assert!((SECOND..SECOND * 2).contains(&took), "once it had time to come: {took:?}");
    bench.stop.stop();
    run.await.unwrap().unwrap();
    assert_eq!(bench.left().await, (0, 0));
}

/// What fails at one comes to the other as often as not.
#[tokio::test(start_paused = true)]
async fn workers_of_one_durable_hold_a_key_up_no_longer_than_what_failed_may_take() {
    const FAILED: u32 = 20;
    let bench = Bench::start(DurableSettings::new().in_flight(64)).await;
    bench.append((0..FAILED * 2).map(|n| n * 10)).await;
    let begun = Instant::now();
    let work = || {
        let worker = bench.worker().retry_after(SECOND / 5, SECOND / 5);
        tokio::spawn(worker.run(async |delivery, bench: Bench| {
            bench.call(&delivery);
            if (delivery.value()?.number / 10).is_multiple_of(2) && delivery.attempt() == 1 { failed() } else { Ok(()) }
        }))
    };
    let workers = [work(), work()];
    bench.until("all is settled", async || bench.left().await == (0, 0)).await;
    let took = begun.elapsed();
    assert!(took < SECOND * FAILED, "{took:?}");
    assert_eq!(bench.noticed("retrying"), FAILED as usize);
    bench.stop.stop();
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_cant_work_is_refused_with_the_remedy() {
    let bench = Bench::start(DurableSettings::new().in_flight(2)).await;
    let refused = bench.worker().concurrency(3).run(async |_, _| Ok(())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("`in_flight`"), "{refused}");
    let invalid = bench.worker().retry_after(SECOND, Duration::ZERO).run(async |_, _| Ok(())).await.unwrap_err();
    assert_eq!(invalid.kind(), ErrorKind::Invalid);
    let config = Config::new(Namespace::new("work", "test").unwrap()).limits(Limits::default());
    let stranger = Broker::new(bench.memory.clone(), config).unwrap();
    let nobody = Job::stream(&stranger).unwrap().durable(&DurableOwner::agent("nobody").unwrap()).unwrap();
    let absent = nobody.worker().run(async |_, ()| Ok(())).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Absent);
    bench.broker.close(SECOND).await.unwrap();
}
