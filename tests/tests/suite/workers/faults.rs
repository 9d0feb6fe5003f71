//! Killed processes, lost groups and data, dead and standing servers, cut connections and a failover under workers, on real
//! servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tidings::backend::{Redis, RedisCluster};
use tidings::capability::{AckGroups, BackendError, GroupAddress};
use tidings::{
    AckGroup, Append, Broker, Cause, Delivery, Durability, Ended, Error, ErrorKind, Position, Start, Stop, Stream,
    StreamSettings, SupervisePolicy, Worker, WorkerNotice,
};
use tidings_tests::harness::{
    Cluster, Cut, Direction, Kind, Proxy, RedisOptions, Replicas, Server, Value, eventually, within,
};
use tidings_tests::load::{Child, Item, Task, config};
use tidings_tests::twisted::{ClientOf, Twist, Twisted};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long a worker waits for what others had. A stall of the machine mustn't be longer where nothing may come twice.
const IDLE: Duration = Duration::from_secs(2);

/// What all workers of a test did.
#[derive(Default)]
struct Ledger {
    written: Mutex<Written>,
    changed: Notify,
}

#[derive(Clone, Default)]
struct Written {
    handled: BTreeMap<u64, u32>,
    gaps: Vec<Cause>,
    interrupted: usize,
    failed: Vec<ErrorKind>,
}

impl Ledger {
    fn write(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.written.lock().unwrap());
        self.changed.notify_waiters();
    }

    fn written(&self) -> Written {
        self.written.lock().unwrap().clone()
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Written) -> bool) {
        let seen = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if wanted(&self.written.lock().unwrap()) {
                    return;
                }
                changed.await;
            }
        };
        within(what, seen).await;
    }

    /// Waits until each of so many numbers was handled.
    async fn all(&self, count: u64) {
        self.until(&format!("{count} are handled"), |written| (0..count).all(|n| written.handled.contains_key(&n)))
            .await;
    }

    fn each_once(&self, count: u64) {
        let written = self.written();
        let twice: Vec<_> = written.handled.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "handled more than once: {twice:?}");
        assert_eq!(written.handled.len() as u64, count);
    }
}

/// One process's handles.
struct Site<B: AckGroups> {
    broker: Broker<B>,
    stream: Stream<Item, B>,
    group: AckGroup<Item, B>,
}

impl<B: AckGroups> Site<B> {
    fn of(backend: B) -> Self {
        let broker = Broker::new(backend, config()).unwrap();
        let stream = Item::stream(&broker).unwrap();
        let group = stream.ack_group("crew").unwrap();
        Self { broker, stream, group }
    }

    async fn ensure(&self, partitions: u32) {
        self.stream.ensure(StreamSettings::new().partitions(partitions)).await.unwrap();
        self.group.ensure(Start::Earliest).await.unwrap();
    }

    async fn append(&self, numbers: std::ops::Range<u64>) {
        let items: Vec<_> = numbers.map(|n| (n % 50, Item { n })).collect();
        for part in items.chunks(1_000) {
            for receipt in self.stream.append_all(part.iter().map(|(key, item)| (key, item))).await.unwrap() {
                receipt.unwrap();
            }
        }
    }

    fn worker(&self, name: &str, ledger: &Arc<Ledger>, stop: &Stop) -> Worker<Item, B, Arc<Ledger>> {
        let told = ledger.clone();
        self.group
            .worker(name)
            .concurrency(4)
            .claim_after(IDLE)
            .backoff(SupervisePolicy::default().initial(Duration::from_millis(5)).max(Duration::from_millis(100)))
            .with(ledger.clone())
            .until(stop)
            .on_notice(move |notice| match notice {
                WorkerNotice::Gap(gap) => told.write(|written| written.gaps.push(gap.cause)),
                WorkerNotice::Interrupted { .. } => told.write(|written| written.interrupted += 1),
                WorkerNotice::Failed { error, .. } => told.write(|written| written.failed.push(error.kind())),
                WorkerNotice::Unsettled { error, .. } => panic!("no handler fails: {error}"),
                _ => {}
            })
    }

    /// Runs a worker whose handler takes so long.
    fn work(&self, name: &str, ledger: &Arc<Ledger>, stop: &Stop, pace: Duration) -> Working {
        work(self.worker(name, ledger, stop), pace)
    }

    async fn acknowledged(&self) {
        eventually("everything is acknowledged", || async {
            match self.group.depth().await {
                Ok(depth) if depth.pending == 0 => Ok(()),
                Ok(depth) => Err(depth.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }
}

type Working = JoinHandle<Result<Ended, Error>>;

fn work<B: AckGroups>(worker: Worker<Item, B, Arc<Ledger>>, pace: Duration) -> Working {
    let running = worker.run(move |delivery: Delivery<Item>, ledger: Arc<Ledger>| async move {
        tokio::time::sleep(pace).await;
        let n = delivery.into_value()?.n;
        ledger.write(|written| *written.handled.entry(n).or_default() += 1);
        Ok(())
    });
    tokio::spawn(Box::pin(running))
}

async fn stopped(stop: &Stop, working: Working) {
    stop.stop();
    assert_eq!(within("the worker ends", working).await.unwrap().unwrap(), Ended::Stopped);
}

async fn server(kind: Kind) -> Server {
    Server::start(kind, RedisOptions::default()).await
}

fn redis(url: impl AsRef<str>) -> Redis {
    Redis::new(url).unwrap()
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn what_a_killed_process_had_is_handled_by_another() {
    let server = server(Kind::Redis8).await;
    let site = Site::of(redis(server.url()));
    site.ensure(1).await;
    site.append(0..100).await;
    let folder = TempDir::with_prefix("tidings-hand-").unwrap();
    let task = Task {
        urls: vec![server.url()],
        name: "dead".into(),
        journal: folder.path().join("journal"),
        pace: Duration::from_millis(100),
        claim_after: IDLE,
        read_ahead: 64,
    };
    let child = Child::start(Path::new(env!("CARGO_BIN_EXE_hand")), task);
    let begun = |journal: &str| journal.lines().filter(|line| line.starts_with("h ")).count();
    child.wrote("is in the middle", |journal| begun(journal) > 12 && journal.contains("\na ")).await;
    let journal = folder.path().join("journal");
    child.kill();
    let journal = std::fs::read_to_string(journal).unwrap();
    let positions = |word: &str| -> BTreeSet<String> {
        let of = journal.lines().filter_map(|line| line.strip_prefix(word));
        of.map(|rest| rest.split(' ').next().unwrap().to_owned()).collect()
    };
    let (begun, confirmed, sent) = (positions("h "), positions("a "), positions("s "));
    assert!(confirmed.len() < begun.len(), "it was killed between two batches");

    let attempts: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let (noted, stop) = (attempts.clone(), Stop::new());
    let worker = site.group.worker("heir").concurrency(4).claim_after(Duration::from_millis(300)).until(&stop);
    let working = tokio::spawn(Box::pin(worker.run(move |delivery: Delivery<Item>, ()| {
        let before = noted.lock().unwrap().insert(delivery.position().to_string(), delivery.attempt());
        assert_eq!(before, None, "handled twice by the heir");
        std::future::ready(Ok(()))
    })));
    eventually("the rest is handled", || async {
        let handled = attempts.lock().unwrap().len();
        if handled + sent.len() >= 100 { Ok(()) } else { Err(format!("{handled} of {}", 100 - confirmed.len())) }
    })
    .await;
    site.acknowledged().await;
    stopped(&stop, working).await;
    let attempts = attempts.lock().unwrap().clone();
    assert!(confirmed.iter().all(|position| !attempts.contains_key(position)), "acknowledged, and handled again");
    for position in begun.iter().filter(|position| !sent.contains(*position)) {
        assert_eq!(attempts.get(position), Some(&2), "{position}, which was under way at the kill");
    }
    let once = attempts.values().filter(|attempt| **attempt == 1).count();
    assert!(once > 0, "the control: what the dead one never had is delivered the first time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_that_race_for_idle_entries_settle_each_once() {
    static SETTLED: AtomicU64 = AtomicU64::new(0);

    struct Counted;

    impl Twist for Counted {
        type Inner = Redis;

        async fn ack(
            client: &ClientOf<Self>,
            group: &GroupAddress,
            positions: &[Position],
        ) -> Result<u64, BackendError> {
            let count = Redis::ack(client, group, positions).await?;
            SETTLED.fetch_add(count, Ordering::Relaxed);
            Ok(count)
        }
    }

    const COUNT: u64 = 600;
    let server = server(Kind::Redis7).await;
    let ledger: Arc<Ledger> = Arc::default();
    let stop = Stop::new();
    let sites: Vec<_> = (0..2).map(|_| Site::of(Twisted::<Counted>(redis(server.url())))).collect();
    sites[0].ensure(1).await;
    sites[0].append(0..COUNT).await;
    let working: Vec<_> = sites
        .iter()
        .zip(["a", "b"])
        .map(|(site, name)| {
            // A handler takes twice as long as an entry may be idle, and much waits for it.
            let worker = site.worker(name, &ledger, &stop).claim_after(Duration::from_millis(30)).concurrency(16);
            work(worker, Duration::from_millis(60))
        })
        .collect();
    ledger.all(COUNT).await;
    sites[0].acknowledged().await;
    // A stop drops an acknowledgement whose reply is on its way, and sends it again, which counts nothing.
    eventually("all acknowledgements are answered", || async {
        let settled = SETTLED.load(Ordering::Relaxed);
        if settled == COUNT { Ok(()) } else { Err(format!("{settled} are counted")) }
    })
    .await;
    for working in working {
        stopped(&stop, working).await;
    }
    assert_eq!(SETTLED.load(Ordering::Relaxed), COUNT, "the counts of all acknowledgements");
}

#[tokio::test]
async fn a_flushed_server_is_a_gap_and_what_comes_after_is_handled() {
    for kind in Kind::ALL {
        let server = server(kind).await;
        let site = Site::of(redis(server.url()));
        site.ensure(2).await;
        let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
        let working = site.work("a", &ledger, &stop, MS);
        site.append(0..100).await;
        ledger.all(100).await;
        server.command(&["FLUSHALL"]).await;
        ledger.until("the loss is told", |written| written.gaps == [Cause::Vanished]).await;
        site.append(100..200).await;
        ledger.all(200).await;
        site.acknowledged().await;
        stopped(&stop, working).await;
        ledger.each_once(200);
    }
}

#[tokio::test]
async fn a_group_destroyed_under_load_loses_nothing() {
    let server = server(Kind::Redis8).await;
    let site = Site::of(redis(server.url()));
    site.ensure(1).await;
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let working = site.work("a", &ledger, &stop, MS);
    for round in 0..4_u64 {
        site.append(round * 500..round * 500 + 500).await;
        // In the middle: entries wait, are under way and are being acknowledged.
        ledger.until("some are handled", |written| written.handled.len() as u64 > round * 500 + 100).await;
        let destroyed = server.command(&["XGROUP", "DESTROY", &log_key(&server).await, "crew"]).await;
        assert_eq!(destroyed, Value::Integer(1));
        ledger.until("the loss is told", |written| written.gaps.len() as u64 == round + 1).await;
    }
    ledger.all(2_000).await;
    site.acknowledged().await;
    stopped(&stop, working).await;
    assert_eq!(ledger.written().gaps, [Cause::Vanished; 4]);
}

/// The only stream's key.
async fn log_key(server: &Server) -> String {
    let keys = server.command(&["SCAN", "0", "COUNT", "1000", "TYPE", "stream"]).await;
    keys.elements()[1].elements()[0].text()
}

#[tokio::test]
async fn a_server_killed_and_restarted_loses_nothing() {
    for kind in Kind::ALL {
        let mut server = server(kind).await;
        let site = Site::of(redis(server.url()));
        site.ensure(1).await;
        site.append(0..900).await;
        let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
        let working = site.work("a", &ledger, &stop, MS);
        for round in 1..=2_usize {
            ledger.until("some are handled", |written| written.handled.len() > round * 200).await;
            server.kill();
            ledger.until("it notices", |written| written.interrupted == round).await;
            server.restart().await;
            ledger.until("the gap is told", |written| written.gaps.len() == round).await;
        }
        ledger.all(900).await;
        site.acknowledged().await;
        stopped(&stop, working).await;
        ledger.each_once(900);
    }
}

#[tokio::test]
async fn a_server_that_stands_still_costs_nothing() {
    let server = server(Kind::Valkey8).await;
    let site = Site::of(redis(server.url()));
    site.ensure(1).await;
    site.append(0..600).await;
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let working = site.work("a", &ledger, &stop, MS);
    ledger.until("some are handled", |written| written.handled.len() > 100).await;
    server.pause().await;
    ledger.until("it notices", |written| written.interrupted == 1).await;
    ledger.until("attempts fail", |written| !written.failed.is_empty()).await;
    server.resume().await;
    ledger.all(600).await;
    site.acknowledged().await;
    stopped(&stop, working).await;
    ledger.each_once(600);
    assert!(!ledger.written().gaps.is_empty());
}

#[tokio::test]
async fn a_connection_cut_anywhere_costs_nothing() {
    let server = server(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let producer = Site::of(redis(server.url()));
    producer.ensure(1).await;
    let site = Site::of(redis(proxy.url()));
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let working = site.work("a", &ledger, &stop, MS);
    let mut count = 0;
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in [1, 20, 60, 150, 400, 1_000, 3_000] {
            proxy.cut_after(direction, bytes, if bytes % 100 == 0 { Cut::Reset } else { Cut::Finish });
            producer.append(count..count + 60).await;
            count += 60;
            ledger.all(count).await;
            producer.acknowledged().await;
        }
    }
    stopped(&stop, working).await;
    ledger.each_once(count);
    assert!(ledger.written().gaps.len() >= 7, "{:?}", ledger.written().gaps);
}

#[tokio::test]
async fn lost_replies_cost_nothing() {
    let server = server(Kind::Redis7).await;
    let proxy = Proxy::start(server.port()).await;
    let producer = Site::of(redis(server.url()));
    producer.ensure(1).await;
    let site = Site::of(redis(proxy.url()));
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let working = site.work("a", &ledger, &stop, MS);
    for round in 0..3_usize {
        let from = round as u64 * 200;
        producer.append(from..from + 100).await;
        ledger.until("some are handled", |written| written.handled.len() as u64 > from + 20).await;
        let before = ledger.written().interrupted;
        proxy.drop_replies(true);
        producer.append(from + 100..from + 200).await;
        ledger.until("it notices", |written| written.interrupted > before).await;
        proxy.cut(Cut::Reset).await;
        proxy.drop_replies(false);
        ledger.all(from + 200).await;
        producer.acknowledged().await;
    }
    stopped(&stop, working).await;
    ledger.each_once(600);
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_waited_for() {
    let server = server(Kind::Redis8).await;
    let site = Site::of(redis(server.url()));
    site.ensure(1).await;
    site.append(0..300).await;
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let working = site.work("a", &ledger, &stop, MS);
    ledger.until("some are handled", |written| written.handled.len() > 50).await;
    // Of a primary that isn't there, so that it keeps its data and refuses writes.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    ledger.until("attempts fail", |written| written.failed.len() > 2).await;
    server.command(&["REPLICAOF", "NO", "ONE"]).await;
    ledger.all(300).await;
    site.acknowledged().await;
    stopped(&stop, working).await;
    ledger.each_once(300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_over_primary_loses_nothing_that_was_replicated() {
    const COUNT: u64 = 1_500;
    let mut cluster = Cluster::start(Kind::Redis8, Replicas::One, RedisOptions::default()).await;
    let producer = Site::of(RedisCluster::new(cluster.urls()).unwrap());
    producer.ensure(6).await;
    let replicated = producer.stream.with_durability(Durability::Replicas(1)).unwrap();
    let (ledger, stop) = (Arc::<Ledger>::default(), Stop::new());
    let sites: Vec<_> = (0..2).map(|_| Site::of(RedisCluster::new(cluster.urls()).unwrap())).collect();
    for site in &sites {
        site.group.ensure(Start::Earliest).await.unwrap();
    }
    let working: Vec<_> =
        sites.iter().zip(["a", "b"]).map(|(site, name)| site.work(name, &ledger, &stop, 2 * MS)).collect();
    let appending = async {
        for n in 0..COUNT {
            eventually(format!("{n} is recorded"), || async {
                // An id makes it safe to repeat, and an append that is repeated waits for a replica of its own.
                replicated.append_with(Append::new(&(n % 50), &Item { n }).id(format!("item-{n}"))).await
            })
            .await;
        }
    };
    let crashing = async {
        ledger.until("a third is handled", |written| written.handled.len() as u64 > COUNT / 3).await;
        let slot = cluster.slot_of("any").await;
        let crashed = cluster.primary_of(slot).await;
        cluster.crash_primary_of(slot).await;
        // Until it is back, as a replica, nothing more can be recorded twice there.
        cluster.restart(crashed).await;
    };
    tokio::join!(appending, crashing);
    ledger.all(COUNT).await;
    producer.acknowledged().await;
    for working in working {
        stopped(&stop, working).await;
    }
    assert_eq!(ledger.written().handled.len() as u64, COUNT);
    for site in sites {
        site.broker.close(Duration::from_secs(10)).await.unwrap();
    }
}
