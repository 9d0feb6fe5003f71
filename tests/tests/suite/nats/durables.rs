//! Durables on JetStream: servers that are killed, paused and cut off, and the cases of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidings::backend::Nats;
use tidings::{
    Broker, Config, Cursor, Durable, DurableOwner, DurableSettings, Ended, Error, ErrorKind, Limits, Namespace, Stop,
    Stream, StreamSettings, SupervisePolicy, WorkerNotice, stream_spec,
};
use tidings_tests::deliveries::{Plan, work_off};
use tidings_tests::harness::{self, Cut, NatsCluster, NatsKind, NatsOptions, Proxy, eventually, within};
use tokio::task::JoinHandle;

use super::DEADLINE;

mod anew;
mod handles;
mod lame;
mod left_out;
mod others;
mod rights;
mod undelivered;

#[stream_spec(name = "nats.jobs", version = 1, key = u64, requires(cursors))]
#[derive(Serialize, Deserialize, Debug)]
struct Job {
    n: u64,
}

const STREAM: &str = "shop_test_stream_nats_jobs_v1";
const SECOND: Duration = Duration::from_secs(1);

fn broker(url: impl AsRef<str>) -> Broker<Nats> {
    let limits = Limits::default().timeout(2 * SECOND).heartbeat(Duration::from_millis(300));
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
    Broker::new(Nats::new(url).unwrap(), config).unwrap()
}

fn owner() -> DurableOwner {
    DurableOwner::module("crew").unwrap()
}

async fn jobs(broker: &Broker<Nats>, settings: DurableSettings) -> (Stream<Job, Nats>, Durable<Job, Nats>) {
    let jobs = Job::stream(broker).unwrap();
    jobs.ensure(StreamSettings::new()).await.unwrap();
    let durable = jobs.durable(&owner()).unwrap();
    durable.ensure(settings).await.unwrap();
    (jobs, durable)
}

async fn append(jobs: &Stream<Job, Nats>, numbers: std::ops::Range<u64>) {
    for n in numbers {
        jobs.append(&(n % 7), &Job { n }).await.unwrap();
    }
}

async fn next(cursor: &mut Cursor<Job, Nats>, within_time: Duration) -> Option<(u64, u32)> {
    let next = cursor.next_within(within_time).await.unwrap()?;
    let seen = (next.value().unwrap().n, next.attempt());
    drop(next);
    Some(seen)
}

/// What a worker handled, how often, and what it told.
#[derive(Clone, Default)]
struct Journal {
    handled: Arc<Mutex<BTreeMap<u64, u64>>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Journal {
    fn count(&self) -> usize {
        self.handled.lock().unwrap().len()
    }

    fn has(&self, what: &str) -> bool {
        self.told.lock().unwrap().iter().any(|told| told.contains(what))
    }

    fn work(&self, durable: &Durable<Job, Nats>, pace: Duration, stop: &Stop) -> JoinHandle<Result<Ended, Error>> {
        self.work_ahead(durable, 256, pace, stop)
    }

    fn work_ahead(
        &self,
        durable: &Durable<Job, Nats>,
        records: usize,
        pace: Duration,
        stop: &Stop,
    ) -> JoinHandle<Result<Ended, Error>> {
        let told = self.told.clone();
        let mut policy = SupervisePolicy::default();
        policy.max = Duration::from_millis(300);
        let worker = durable.worker().concurrency(4).read_ahead(records).backoff(policy).with(self.clone()).until(stop);
        let worker = worker.on_notice(move |notice| {
            let text = match notice {
                WorkerNotice::Gap(gap) => format!("gap {gap}"),
                other => other.to_string(),
            };
            told.lock().unwrap().push(text);
        });
        tokio::spawn(worker.run(move |delivery, journal: Self| async move {
            let n = delivery.value()?.n;
            tokio::time::sleep(pace).await;
            *journal.handled.lock().unwrap().entry(n).or_default() += 1;
            Ok(())
        }))
    }
}

async fn settled(durable: &Durable<Job, Nats>) {
    eventually("everything is settled", || async {
        match durable.info().await {
            Ok(info) if (info.waiting, info.in_flight) == (0, 0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn nothing_is_lost_while_the_server_is_killed(kind: NatsKind) {
    let plan = Plan {
        kind,
        deliveries: 4_000,
        workers: 3,
        pace: Duration::from_millis(30),
        kill_every: Duration::from_millis(700),
    };
    let figures = work_off(plan).await;
    assert!(figures.kills >= 2 && figures.gaps >= 2, "{figures:?}");
    assert_eq!((figures.lost.len(), figures.again.len()), (0, 0), "{figures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_server_is_killed_2_10() {
    nothing_is_lost_while_the_server_is_killed(NatsKind::Nats210).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_server_is_killed_2_15() {
    nothing_is_lost_while_the_server_is_killed(NatsKind::Nats215).await;
}

/// What the server had confirmed and forgot, since it writes a consumer's state behind.
#[tokio::test]
async fn a_settlement_that_the_server_forgot_is_told_again() {
    let mut server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new()).await;
    append(&jobs, 0..5).await;
    let mut cursor = durable.cursor().await.unwrap();
    for n in 0..4 {
        let job = cursor.next().await.unwrap();
        assert_eq!(job.value().unwrap().n, n);
        if n == 2 { job.term("of no use").await.unwrap() } else { job.ack().await.unwrap() }
    }
    server.restart().await;
    let mut seen = Vec::new();
    within("the rest comes", async {
        while seen.is_empty() {
            // What doesn't wait has to say it again, too, and look on.
            match cursor.next_within(Duration::ZERO).await {
                Ok(None) => {}
                Ok(Some(job)) => {
                    seen.push(job.value().unwrap().n);
                    job.ack().await.unwrap();
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    })
    .await;
    assert_eq!(seen, [4]);
    settled(&durable).await;
    // A durable that is made anew hands everything out, whatever was settled before, once that is told.
    durable.delete().await.unwrap();
    durable.ensure(DurableSettings::new()).await.unwrap();
    let told = cursor.next().await.map(drop).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Absent, "{told}");
    assert_eq!(next(&mut cursor, 5 * SECOND).await, Some((0, 1)));
}

/// A server that is killed forgets what it handed out last, and answers no settlement of that until it is handed out again.
async fn a_worker_goes_on_where_the_server_forgot_deliveries(kind: NatsKind) {
    const JOBS: u64 = 1_500;
    let mut server = harness::Nats::start(kind, NatsOptions::default()).await;
    let limits = Limits::default().timeout(10 * SECOND);
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
    let broker = Broker::new(Nats::new(server.url()).unwrap(), config).unwrap();
    let (jobs, durable) = jobs(&broker, DurableSettings::new().in_flight(64)).await;
    let all: Vec<_> = (0..JOBS).map(|n| (n % 50, Job { n })).collect();
    for appended in jobs.append_all(all.iter().map(|(key, job)| (key, job))).await.unwrap() {
        appended.unwrap();
    }
    let (journal, stop) = (Journal::default(), Stop::new());
    let running = journal.work(&durable, Duration::from_millis(5), &stop);
    let handled = |least| {
        let journal = journal.clone();
        eventually("more is handled", move || {
            let count = journal.count();
            async move { if count >= least { Ok(()) } else { Err(format!("{count}")) } }
        })
    };
    for least in [200, 500, 800] {
        handled(least).await;
        server.restart().await;
        let back = Instant::now();
        handled(least + 200).await;
        let took = back.elapsed();
        assert!(took < 8 * SECOND, "not once a settlement is given up: {took:?}, {:?}", journal.told.lock().unwrap());
    }
    settled(&durable).await;
    assert_eq!(journal.count() as u64, JOBS);
    stop.stop();
    within("it stops", running).await.unwrap().unwrap();
    let told = journal.told.lock().unwrap();
    let interrupted = told.iter().filter(|told| told.contains("interrupted")).count();
    assert_eq!(interrupted, 3, "once for each time: {told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_where_the_server_forgot_deliveries_2_10() {
    a_worker_goes_on_where_the_server_forgot_deliveries(NatsKind::Nats210).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_where_the_server_forgot_deliveries_2_15() {
    a_worker_goes_on_where_the_server_forgot_deliveries(NatsKind::Nats215).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_outlives_a_server_that_hangs_and_closes_beside_one() {
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default()).await;
    let broker = broker(server.url());
    let settings = DurableSettings::new().in_flight(16).ack_wait(2 * SECOND);
    let (jobs, durable) = jobs(&broker, settings).await;
    append(&jobs, 0..200).await;
    let (journal, stop) = (Journal::default(), Stop::new());
    let running = journal.work(&durable, Duration::from_millis(5), &stop);
    eventually("some are handled", || async { if journal.count() > 20 { Ok(()) } else { Err("few".to_owned()) } })
        .await;
    server.pause().await;
    eventually("it is told", || async { if journal.has("interrupted") { Ok(()) } else { Err("not yet".to_owned()) } })
        .await;
    server.resume().await;
    settled(&durable).await;
    assert_eq!(journal.count(), 200);
    assert!(journal.has("gap"));

    server.pause().await;
    let since = Instant::now();
    let binding = tokio::spawn(async move { jobs.cursor(&owner()).await.map(drop) });
    eventually("it binds", || async { if broker.stats().operations > 0 { Ok(()) } else { Err("not yet".to_owned()) } })
        .await;
    broker.close(DEADLINE).await.expect("a close waits for nobody");
    assert!(since.elapsed() < DEADLINE, "{:?}", since.elapsed());
    assert_eq!(within("it ends", binding).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(within("the worker ends", running).await.unwrap().unwrap(), Ended::Closed);
    server.resume().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_midway_lose_nothing() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let proxy = Proxy::start(server.port()).await;
    let straight = broker(server.url());
    let (jobs, _) = jobs(&straight, DurableSettings::new().ack_wait(SECOND / 2)).await;
    append(&jobs, 0..24).await;
    let cut_off = broker(format!("nats://{}", proxy.address()));
    let far = Job::stream(&cut_off).unwrap();
    let mut cursor = within("it binds", far.cursor(&owner())).await.unwrap();
    let (mut acked, mut again) = (Vec::new(), Vec::new());
    within("all are settled", async {
        let mut turn = 0;
        while acked.len() < 24 {
            turn += 1;
            // After so many bytes of the server's, in the middle of whatever it is.
            proxy.cut_after(harness::Direction::ToClient, 500 + (turn * 37) % 1_500, Cut::Reset);
            for _ in 0..3 {
                let Ok(Some(job)) = cursor.next_within(2 * SECOND).await else { break };
                let n = job.value().unwrap().n;
                if acked.contains(&n) {
                    again.push(n);
                }
                if job.ack().await.is_ok() && !acked.contains(&n) {
                    acked.push(n);
                }
            }
            // Where an ack arrived and its answer didn't, nothing comes again.
            let info = straight_info(&straight).await;
            if info == (0, 0) {
                break;
            }
        }
    })
    .await;
    assert_eq!(again, [0; 0], "what was confirmed never comes again");
    assert_eq!(straight_info(&straight).await, (0, 0));
}

async fn straight_info(broker: &Broker<Nats>) -> (u64, u64) {
    let durable = Job::stream(broker).unwrap().durable(&owner()).unwrap();
    let info = durable.info().await.unwrap();
    (info.waiting, info.in_flight)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_without_its_leader() {
    let mut cluster = NatsCluster::start(NatsKind::Nats210, NatsOptions::default()).await;
    let broker = broker(cluster.url());
    let jobs = Job::stream(&broker).unwrap();
    jobs.ensure(StreamSettings::new().replicas(3)).await.unwrap();
    let durable = jobs.durable(&owner()).unwrap();
    durable.ensure(DurableSettings::new().in_flight(16).ack_wait(3 * SECOND)).await.unwrap();
    append(&jobs, 0..200).await;
    let (journal, stop) = (Journal::default(), Stop::new());
    let running = journal.work(&durable, Duration::from_millis(10), &stop);
    eventually("some are handled", || async { if journal.count() > 20 { Ok(()) } else { Err("few".to_owned()) } })
        .await;
    let leader = cluster.leader_of(STREAM).await;
    cluster.kill(leader);
    settled(&durable).await;
    assert_eq!(journal.count(), 200);
    stop.stop();
    assert_eq!(within("the worker ends", running).await.unwrap().unwrap(), Ended::Stopped);
    broker.close(DEADLINE).await.unwrap();
}

/// Case G04: what is handed out as often as it may be stays in the stream, and is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g04_what_is_never_settled_is_told() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new().max_deliver(2).ack_wait(SECOND)).await;
    append(&jobs, 0..1).await;
    let mut cursor = durable.cursor().await.unwrap();
    for attempt in 1..=2 {
        let job = cursor.next().await.unwrap();
        assert_eq!(job.attempt(), attempt);
        job.nak(Duration::ZERO).await.unwrap();
    }
    let told = within("it is told", cursor.next()).await.map(drop).unwrap_err();
    assert_eq!((told.kind(), told.position().map(tidings::Position::offset)), (ErrorKind::Undelivered, Some(1)));
    assert!(told.to_string().contains("0:1"), "{told}");
    assert_eq!(straight_info(&broker).await, (0, 0), "the queue looks empty");
    let left = jobs.read(tidings::Start::Earliest, 10, Duration::ZERO).await.unwrap();
    assert_eq!(left.len(), 1, "and nothing is lost");

    // A worker tells the last attempt before the server is asked to give up.
    append(&jobs, 1..2).await;
    let (told, stop) = (Arc::<Mutex<Vec<String>>>::default(), Stop::new());
    let telling = told.clone();
    let worker =
        durable.worker().retry_after(Duration::from_millis(50), SECOND).until(&stop).on_notice(move |notice| {
            telling.lock().unwrap().push(notice.to_string());
        });
    let running = tokio::spawn(worker.run(async |_, ()| Err("it never works".into())));
    eventually("it stays unsettled", || async {
        let told = told.lock().unwrap();
        if told.iter().any(|told| told.contains("stays unsettled at attempt 2")) {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(straight_info(&broker).await, (0, 1), "it is kept for as long as the worker runs");
    stop.stop();
    within("the worker ends", running).await.unwrap().unwrap();
    assert!(told.lock().unwrap().iter().any(|told| told.contains("was never settled")));
}

/// Cases G06 and G07.
#[tokio::test]
async fn g06_g07_a_backoff_that_contradicts_is_refused() {
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default()).await;
    let broker = broker(server.url());
    let jobs = Job::stream(&broker).unwrap();
    jobs.ensure(StreamSettings::new()).await.unwrap();
    let durable = jobs.durable(&owner()).unwrap();
    let backoff = [SECOND, 30 * SECOND];
    for (settings, said) in [
        (DurableSettings::new().backoff(backoff).ack_wait(20 * SECOND), "in the place of `ack_wait`"),
        (DurableSettings::new().backoff([SECOND; 3]).max_deliver(2), "`max_deliver` of 2"),
    ] {
        let refused = durable.ensure(settings).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains(said), "{refused}");
    }
    // A handler that takes longer than the first wait is kept alive, so it gets the delivery once.
    durable.ensure(DurableSettings::new().backoff(backoff).in_flight(4)).await.unwrap();
    jobs.append(&1, &Job { n: 1 }).await.unwrap();
    let (journal, stop) = (Journal::default(), Stop::new());
    let running = journal.work(&durable, 3 * SECOND, &stop);
    settled(&durable).await;
    stop.stop();
    within("the worker ends", running).await.unwrap().unwrap();
    assert_eq!(journal.handled.lock().unwrap().get(&1), Some(&1));
}

/// Cases G21 and G23: what was let go comes again after its ack wait, and the figures say what is where.
#[tokio::test]
async fn g21_g23_what_was_let_go_is_seen_and_comes_again() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let first = broker(server.url());
    let (jobs, durable) = jobs(&first, DurableSettings::new().ack_wait(SECOND)).await;
    append(&jobs, 0..3).await;
    let mut cursor = durable.cursor().await.unwrap();
    assert_eq!(next(&mut cursor, SECOND).await, Some((0, 1)));
    assert_eq!(straight_info(&first).await, (2, 1), "the stall is visible");
    let begun = Instant::now();
    first.close(DEADLINE).await.unwrap();
    let second = broker(server.url());
    let mut cursor = Job::stream(&second).unwrap().cursor(&owner()).await.unwrap();
    assert_eq!(next(&mut cursor, 10 * SECOND).await, Some((0, 2)));
    assert!(begun.elapsed() >= Duration::from_millis(700), "not before its ack wait");
    for n in 0..3 {
        let job = within("it comes", cursor.next()).await.unwrap();
        assert_eq!(job.value().unwrap().n, n);
        job.ack().await.unwrap();
    }
    settled(cursor.durable()).await;
}

/// Case G22: a durable that is ahead of a stream that lost its end.
#[tokio::test]
async fn g22_a_durable_ahead_of_its_stream_is_refused() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new().in_flight(8)).await;
    append(&jobs, 0..5).await;
    eventually("the durable has heard of all", || async {
        let waiting = durable.info().await.unwrap().waiting;
        if waiting == 5 { Ok(()) } else { Err(waiting) }
    })
    .await;
    // The server has no way to lose a stream's end by request, so the durable is made to begin beyond it.
    let ahead = tidings::Position::new(0, 900);
    durable.delete().await.unwrap();
    durable.ensure(DurableSettings::new().start(ahead)).await.unwrap();
    append(&jobs, 5..6).await;
    match durable.info().await {
        // Either the server takes it back to the end,
        Ok(info) => assert_eq!(info.waiting, 1),
        // or it is told.
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::Conflict);
            assert!(refused.to_string().contains("delete the durable"), "{refused}");
        }
    }
}

#[tokio::test]
async fn what_is_no_durable_of_this_library_is_refused_in_words() {
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default()).await;
    let broker = broker(server.url());
    let jobs = Job::stream(&broker).unwrap();
    jobs.ensure(StreamSettings::new()).await.unwrap();
    let client = super::other(&server).await;
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream(STREAM).await.unwrap();
    let config = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some("m_crew".to_owned()),
        ack_policy: async_nats::jetstream::consumer::AckPolicy::None,
        ..Default::default()
    };
    stream.create_consumer(config).await.unwrap();
    let refused = jobs.cursor(&owner()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("take another owner"), "{refused}");
}
