//! Deliveries of a durable that are worked off while their server is killed and restarted, and an account of what came again
//! although its settlement was confirmed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidings::backend;
use tidings::capability::{
    Backend, BackendError, BoundDurable, Checked, Cursors, GroupAddress, Host, Log, Pulled, Read, Record,
    StreamAddress, Ticket, Verdict, Wanted,
};
use tidings::{
    Append, Broker, Config, Durability, DurableInfo, DurableOwner, DurableSettings, ErrorKind, HandlerError, Limits,
    Namespace, Position, Positions, Receipt, Start, Stop, Stream, StreamSettings, SupervisePolicy, WorkerNotice,
    stream_spec,
};
use tokio::task::JoinSet;

use crate::harness::{Nats, NatsKind, NatsOptions};

/// What is worked off.
#[stream_spec(name = "load.letters", version = 1, key = u64, requires(cursors, dedup))]
#[derive(Serialize, Deserialize)]
pub struct Letter {
    /// Its number.
    pub n: u64,
}

/// How much is to be done, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which server.
    pub kind: NatsKind,
    /// Deliveries.
    pub deliveries: u64,
    /// Workers at once, of one broker.
    pub workers: usize,
    /// How long a handler takes.
    pub pace: Duration,
    /// How often the server is killed and restarted.
    pub kill_every: Duration,
}

/// What became of the deliveries.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Records that no handler got.
    pub lost: Vec<u64>,
    /// How often handlers were called.
    pub handled: u64,
    /// Those beyond the first time.
    pub duplicates: u64,
    /// Settled, which was confirmed, and handed out again.
    pub again: Vec<Position>,
    /// How often the server was killed.
    pub kills: u64,
    /// Gaps that the workers told.
    pub gaps: u64,
    /// From the first worker until everything was settled.
    pub lasted: Duration,
}

/// What is known of settlements, by every worker.
#[derive(Debug, Default)]
struct Known {
    confirmed: HashSet<Position>,
    again: Vec<Position>,
}

/// NATS, where what was confirmed is noted.
struct Watched {
    inner: backend::Nats,
    known: Arc<Mutex<Known>>,
}

struct WatchedClient {
    inner: <backend::Nats as Backend>::Client,
    known: Arc<Mutex<Known>>,
}

struct WatchedDurable {
    inner: <backend::Nats as Cursors>::Durable,
    known: Arc<Mutex<Known>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

fn known(of: &Mutex<Known>) -> MutexGuard<'_, Known> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

type Inner = backend::Nats;

impl Backend for Watched {
    type Client = WatchedClient;

    fn system(&self) -> &'static str {
        self.inner.system()
    }

    fn client(&self, host: Host) -> Result<WatchedClient, Vec<String>> {
        Ok(WatchedClient { inner: self.inner.client(host)?, known: self.known.clone() })
    }

    async fn check(client: &WatchedClient, wanted: Wanted) -> Result<Checked, BackendError> {
        Inner::check(&client.inner, wanted).await
    }

    async fn close(client: &WatchedClient) {
        Inner::close(&client.inner).await;
    }
}

impl Log for Watched {
    fn admits(client: &WatchedClient, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        Inner::admits(&client.inner, stream, durability)
    }

    async fn ensure(
        client: &WatchedClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        Inner::ensure(&client.inner, stream, settings).await
    }

    async fn delete(client: &WatchedClient, stream: &StreamAddress) -> Result<bool, BackendError> {
        Inner::delete(&client.inner, stream).await
    }

    async fn append(
        client: &WatchedClient,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> Result<Receipt, BackendError> {
        Inner::append(&client.inner, stream, record, durability).await
    }

    async fn append_all(
        client: &WatchedClient,
        stream: &StreamAddress,
        records: Vec<Record>,
        durability: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        Inner::append_all(&client.inner, stream, records, durability).await
    }

    async fn start(client: &WatchedClient, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        Inner::start(&client.inner, stream, start).await
    }

    async fn read(
        client: &WatchedClient,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        Inner::read(&client.inner, stream, after, max, wait).await
    }
}

impl tidings::capability::Dedup for Watched {
    async fn window(client: &WatchedClient, stream: &StreamAddress) -> Result<Duration, BackendError> {
        <Inner as tidings::capability::Dedup>::window(&client.inner, stream).await
    }
}

impl Cursors for Watched {
    type Durable = WatchedDurable;

    async fn ensure_durable(
        client: &WatchedClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<bool, BackendError> {
        Inner::ensure_durable(&client.inner, durable, settings).await
    }

    async fn update_durable(
        client: &WatchedClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<(), BackendError> {
        Inner::update_durable(&client.inner, durable, settings).await
    }

    async fn delete_durable(client: &WatchedClient, durable: &GroupAddress) -> Result<bool, BackendError> {
        Inner::delete_durable(&client.inner, durable).await
    }

    async fn inspect_durable(client: &WatchedClient, durable: &GroupAddress) -> Result<DurableInfo, BackendError> {
        Inner::inspect_durable(&client.inner, durable).await
    }

    async fn bind_durable(client: &WatchedClient, durable: &GroupAddress) -> Result<WatchedDurable, BackendError> {
        let inner = Inner::bind_durable(&client.inner, durable).await?;
        Ok(WatchedDurable { inner, known: client.known.clone() })
    }
}

impl BoundDurable for WatchedDurable {
    async fn pull(&self, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        let pulled = self.inner.pull(max, wait).await?;
        let mut known = known(&self.known);
        for pulled in &pulled {
            if let Pulled::Delivery(stored, _) = pulled
                && known.confirmed.contains(&stored.position)
            {
                known.again.push(stored.position);
            }
        }
        Ok(pulled)
    }

    async fn settle(&self, settlements: Vec<(Ticket, Verdict)>) -> Vec<Result<(), BackendError>> {
        let acks: Vec<_> =
            settlements.iter().map(|(ticket, verdict)| (*verdict == Verdict::Ack).then_some(ticket.position)).collect();
        let settled = self.inner.settle(settlements).await;
        let confirmed = acks.into_iter().zip(&settled).filter(|(_, settled)| settled.is_ok());
        known(&self.known).confirmed.extend(confirmed.filter_map(|(position, _)| position));
        settled
    }

    async fn release(&self) {
        self.inner.release().await;
    }
}

fn broker(url: &str, known: &Arc<Mutex<Known>>) -> Broker<Watched> {
    let inner = backend::Nats::new(url).expect("a good URL");
    let config = Config::new(Namespace::new("load", "test").expect("good names"));
    let config = config.limits(Limits::default().timeout(Duration::from_secs(2)));
    Broker::new(Watched { inner, known: known.clone() }, config).expect("a good configuration")
}

/// Who handled what.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<(BTreeMap<u64, u64>, u64)>>);

/// Appends under ids of its own, again where nobody knows whether it happened.
async fn append(letters: &Stream<Letter, Watched>, deliveries: u64) {
    const BATCH: u64 = 500;
    for first in (0..deliveries).step_by(usize::try_from(BATCH).expect("it is small")) {
        let mut left: Vec<u64> = (first..deliveries.min(first + BATCH)).collect();
        while !left.is_empty() {
            let values: Vec<_> = left.iter().map(|n| (n % 1_000, Letter { n: *n })).collect();
            let appends =
                values.iter().zip(&left).map(|((key, letter), n)| Append::new(key, letter).id(format!("letter-{n}")));
            match letters.append_all(appends).await {
                Ok(receipts) => {
                    left = left
                        .into_iter()
                        .zip(receipts)
                        .filter(|(_, receipt)| receipt.is_err())
                        .map(|(n, _)| n)
                        .collect();
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            if !left.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Works off the deliveries.
///
/// # Panics
///
/// When something fails that has nothing to do with a server that is away for a moment, or when it isn't done after ten
/// minutes.
pub async fn work_off(plan: Plan) -> Figures {
    let mut server = Nats::start(plan.kind, NatsOptions::default()).await;
    let url = server.url();
    let seen = Arc::<Mutex<Known>>::default();
    let owner = DurableOwner::module("letters").expect("a good id");
    let producer = broker(&url, &seen);
    let letters = Letter::stream(&producer).expect("it binds");
    letters.ensure(StreamSettings::new()).await.expect("it is there");
    let settings = DurableSettings::new().in_flight(600).ack_wait(Duration::from_secs(5));
    letters.durable(&owner).expect("it binds").ensure(settings).await.expect("it is there");

    let (journal, stop) = (Journal::default(), Stop::new());
    let mut workers = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..plan.workers {
        let (durable, journal, stop) = (letters.durable(&owner).expect("it binds"), journal.clone(), stop.clone());
        workers.spawn(async move {
            let gaps = journal.clone();
            let mut policy = SupervisePolicy::default();
            policy.max = Duration::from_millis(500);
            let worker = durable.worker().concurrency(16).read_ahead(128).backoff(policy).with(journal).until(&stop);
            let worker = worker.on_notice(move |notice| {
                if let WorkerNotice::Gap(_) = notice {
                    gaps.0.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
                }
            });
            let ended = worker
                .run(move |delivery, journal: Journal| async move {
                    let n = delivery.value()?.n;
                    tokio::time::sleep(plan.pace).await;
                    *journal.0.lock().unwrap_or_else(PoisonError::into_inner).0.entry(n).or_default() += 1;
                    Ok::<(), HandlerError>(())
                })
                .await;
            ended.expect("a worker survives a server that is away");
        });
    }

    let mut figures = Figures::default();
    let killing = async {
        loop {
            tokio::time::sleep(plan.kill_every).await;
            server.kill();
            figures.kills += 1;
            server.restart().await;
        }
    };
    let finishing = async {
        append(&letters, plan.deliveries).await;
        let durable = letters.durable(&owner).expect("it binds");
        loop {
            match durable.info().await {
                Ok(info) if info.waiting == 0 && info.in_flight == 0 => return,
                Ok(_) => {}
                Err(error) => assert!(error.is_transient() || error.kind() == ErrorKind::Unsupported, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = killing => {}
        done = tokio::time::timeout(Duration::from_mins(10), finishing) => done.expect("it is done after ten minutes"),
    }
    figures.lasted = begun.elapsed();
    server.restart().await;
    stop.stop();
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker panics");
    }
    producer.close(Duration::from_secs(10)).await.expect("everything ends");
    let (handled, gaps) = journal.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    figures.gaps = gaps;
    figures.handled = handled.values().sum();
    figures.duplicates = figures.handled - handled.len() as u64;
    figures.lost = (0..plan.deliveries).filter(|n| !handled.contains_key(n)).collect();
    figures.again = known(&seen).again.clone();
    figures
}
