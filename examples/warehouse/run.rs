//! The whole run, on any backend that has commit groups and transactions.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tidings::capability::{CommitGroups, Transactions};
use tidings::{Broker, Config, KeyedStream, Namespace, Start, StreamSettings};
use tidings_examples::{Accounts, Failure};
use tokio::time::{Instant, sleep, timeout};

use crate::crew::Crew;
use crate::entry::{QuakeDelivered, QuakesCounted};
use crate::member::GROUP;

/// How many entries are appended at a time.
const BATCH: usize = 100;
pub(crate) const PARTITIONS: u32 = 6;
/// How long connecting and closing may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How long the counting may take: Kafka misses a member that was killed after 45 s.
const COUNTING: Duration = Duration::from_mins(3);
/// The members, of which the second is killed once it has counted some.
pub(crate) const MEMBERS: [&str; 2] = ["house-1", "house-2"];
pub(crate) const DOOMED: &str = MEMBERS[1];
/// After so many pages.
pub(crate) const PAGES: usize = 8;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) server: String,
    /// How many events were appended.
    pub(crate) appended: usize,
    /// What was counted, added up.
    pub(crate) accounts: Accounts,
    /// How many events each member has counted.
    pub(crate) shares: BTreeMap<String, u64>,
    /// How many records were written.
    pub(crate) written: usize,
    /// How many records the group has left.
    pub(crate) left: u64,
    pub(crate) took: Duration,
}

/// A name for the run's own streams.
pub(crate) fn environment() -> Result<String, Failure> {
    #[allow(clippy::disallowed_methods, reason = "it is a name, and no time that anything waits for")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    Ok(format!("run-{now}-{}", std::process::id()))
}

/// Makes a broker for one of the run's processes.
pub(crate) fn broker<B: CommitGroups + Transactions>(backend: B, environment: &str) -> Result<Broker<B>, Failure> {
    Ok(Broker::new(backend, Config::new(Namespace::new("warehouse", environment)?))?)
}

/// Appends everything, has the crew count it, and adds up what they wrote.
pub(crate) async fn on<B, C>(
    backend: B,
    crew: C,
    environment: &str,
    quakes: &[QuakeDelivered],
) -> Result<Outcome, Failure>
where
    B: CommitGroups + Transactions,
    C: Crew,
{
    let broker = broker(backend, environment)?;
    let incoming = QuakeDelivered::stream(&broker)?;
    let counted = QuakesCounted::stream(&broker)?;
    let outcome = run(&broker, &incoming, &counted, crew, quakes).await;
    // Streams stay on their server, so each run takes its own away again.
    let deleted = [incoming.delete().await, counted.delete().await];
    let closed = broker.close(PATIENCE).await;
    let outcome = outcome?;
    for deleted in deleted {
        if !deleted? {
            return Err("a stream was gone before it was deleted".into());
        }
    }
    closed?;
    Ok(outcome)
}

async fn run<B, C>(
    broker: &Broker<B>,
    incoming: &KeyedStream<QuakeDelivered, B>,
    counted: &KeyedStream<QuakesCounted, B>,
    mut crew: C,
    quakes: &[QuakeDelivered],
) -> Result<Outcome, Failure>
where
    B: CommitGroups + Transactions,
    C: Crew,
{
    let checked = broker.check(PATIENCE).await?;
    if !checked.problems.is_empty() {
        return Err(checked.problems.join("; ").into());
    }
    incoming.ensure(StreamSettings::new().partitions(PARTITIONS)).await?;
    counted.ensure(StreamSettings::new()).await?;
    let group = incoming.commit_group(GROUP)?;
    group.ensure(Start::Earliest).await?;
    for batch in quakes.chunks(BATCH) {
        for receipt in incoming.append_all(batch).await? {
            receipt?;
        }
    }

    let started = Instant::now();
    for member in MEMBERS {
        crew.start(member, (member == DOOMED).then_some(PAGES)).await?;
    }
    let counting = async {
        crew.kill(DOOMED).await?;
        while group.lag().await?.iter().any(|lag| lag.records > 0) {
            crew.look()?;
            sleep(Duration::from_millis(20)).await;
        }
        crew.ended().await
    };
    timeout(COUNTING, counting).await.map_err(|_| format!("not everything was counted within {COUNTING:?}"))??;
    let took = started.elapsed();

    let (mut accounts, mut shares) = (Accounts::new(), BTreeMap::new());
    let mut written = 0;
    let mut tail = counted.tail(Start::Earliest);
    // A reader sees what was recorded, and nothing of a unit that wasn't.
    while accounts.values().map(|account| account.events).sum::<u64>() < quakes.len() as u64 {
        let Ok(delivery) = timeout(PATIENCE, tail.receive()).await else { break };
        let count = delivery?.into_value()?;
        written += 1;
        *shares.entry(count.member).or_default() += count.account.events;
        accounts.entry(count.network).or_default().join(&count.account);
    }
    // Nothing may come behind.
    if let Ok(more) = timeout(Duration::from_millis(500), tail.receive()).await {
        let count = more?.into_value()?;
        accounts.entry(count.network).or_default().join(&count.account);
    }
    let left = group.lag().await?.iter().map(|lag| lag.records).sum();
    Ok(Outcome { server: checked.server, appended: quakes.len(), accounts, shares, written, left, took })
}
