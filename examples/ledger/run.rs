//! The whole run, on any backend that has ack groups and deduplication.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidings::capability::{AckGroups, Dedup};
use tidings::{
    AckGroup, Append, Broker, Config, Ended, Error, KeyedStream, Namespace, Position, Receipt, Start, Stop,
    StreamSettings,
};
use tidings_examples::Failure;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::books::{Books, Pages};
use crate::entry::QuakeRecorded;
use crate::work::{DOOMED, Desk, Doom, WORKERS};

/// How many entries are appended at a time.
const BATCH: usize = 100;
/// On Redis Cluster they spread over the nodes; a key's entries stay in one.
pub(crate) const PARTITIONS: u32 = 4;
/// How long connecting and closing may take, how long until the worker that is killed got so far, and how long the rest
/// may take the others.
const PATIENCE: Duration = Duration::from_secs(15);
/// As many as one page of pending entries may have.
const PAGE: usize = 100;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) server: String,
    /// How many events were appended.
    pub(crate) appended: usize,
    /// How many of them were appended again.
    pub(crate) repeated: usize,
    /// How many of those were told as duplicates, at the position of the first.
    pub(crate) duplicates: usize,
    /// What was pending for the worker that was killed.
    pub(crate) left: HashSet<Position>,
    /// What is still pending at the end.
    pub(crate) pending: u64,
    pub(crate) pages: Pages,
    pub(crate) took: Duration,
}

/// Appends everything, a part of it twice, and lets the workers work.
pub(crate) async fn on<B: AckGroups + Dedup>(backend: B, entries: &[QuakeRecorded]) -> Result<Outcome, Failure> {
    // A stream stays on its server. So each run has an environment of its own, and takes its stream away again.
    #[allow(clippy::disallowed_methods, reason = "it is a name, and no time that anything waits for")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let namespace = Namespace::new("ledger", format!("run-{now}-{}", std::process::id()))?;
    let broker = Broker::new(backend, Config::new(namespace))?;
    let stream = QuakeRecorded::stream(&broker)?;
    let mut workers = JoinSet::new();
    let outcome = run(&stream, entries, &mut workers).await;
    // Where something failed they still run.
    workers.shutdown().await;
    let deleted = stream.delete().await;
    // Close waits for everything that the broker owns; what doesn't end in time is named in the error.
    let closed = broker.close(PATIENCE).await;
    let outcome = outcome?;
    if !deleted? {
        return Err("the stream was gone before it was deleted".into());
    }
    closed?;
    Ok(outcome)
}

async fn run<B: AckGroups + Dedup>(
    stream: &KeyedStream<QuakeRecorded, B>,
    entries: &[QuakeRecorded],
    workers: &mut JoinSet<Result<Ended, Error>>,
) -> Result<Outcome, Failure> {
    let checked = stream.broker().check(PATIENCE).await?;
    if !checked.problems.is_empty() {
        return Err(checked.problems.join("; ").into());
    }
    stream.ensure(StreamSettings::new().partitions(PARTITIONS)).await?;
    let group = stream.ack_group("books")?;
    group.ensure(Start::Earliest).await?;

    let started = Instant::now();
    let books = Books::default();
    let stop = Stop::new();
    let doom = Arc::new(Doom { after: entries.len().div_ceil(12), reached: Notify::new() });
    let mut doomed = None;
    for worker in WORKERS {
        let doom = (worker == DOOMED).then(|| doom.clone());
        let is_doomed = doom.is_some();
        let desk = Desk { worker, books: books.clone(), doom };
        let task = workers.spawn(desk.work(group.clone(), stop.clone()));
        if is_doomed {
            doomed = Some(task);
        }
    }

    let appending = append(stream, entries);
    let killing = async {
        let reached = timeout(PATIENCE, doom.reached.notified()).await;
        reached.map_err(|_| format!("`{DOOMED}` got too few events to be killed on the way"))?;
        // Its future is dropped where it stands, as in a crash: nothing is finished, acknowledged or given back.
        if let Some(task) = &doomed {
            task.abort();
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        pending_for(&group, DOOMED).await
    };
    let (positions, left) = tokio::try_join!(appending, killing)?;

    // Whoever doesn't know whether an append arrived repeats it under the same id.
    let again = &entries[entries.len() * 3 / 4..];
    let mut duplicates = 0;
    for (receipt, first) in append_all(stream, again).await?.into_iter().zip(&positions[entries.len() * 3 / 4..]) {
        duplicates += usize::from(receipt.duplicate && receipt.position == Some(*first));
    }

    let done = async {
        loop {
            let depth = group.depth().await?;
            // A backend may not know what is unread.
            if books.pages().booked() >= entries.len() && depth.pending == 0 && depth.unread.unwrap_or(0) == 0 {
                return Ok::<_, Error>(());
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        // What isn't booked by then is reported as what is missing.
        done = timeout(PATIENCE, done) => done.unwrap_or(Ok(()))?,
        ended = first_to_end(workers) => ended?,
    }
    let took = started.elapsed();
    // What is under way is finished and acknowledged.
    stop.stop();
    while let Some(ended) = workers.join_next().await {
        ended_well(ended)?;
    }
    let pages = books.pages().clone();
    Ok(Outcome {
        server: checked.server,
        appended: positions.len(),
        repeated: again.len(),
        duplicates,
        left,
        pending: group.depth().await?.pending,
        pages,
        took,
    })
}

/// Appends every event once, and returns where each stands.
async fn append<B: AckGroups + Dedup>(
    stream: &KeyedStream<QuakeRecorded, B>,
    entries: &[QuakeRecorded],
) -> Result<Vec<Position>, Failure> {
    let mut positions = Vec::new();
    for receipt in append_all(stream, entries).await? {
        if receipt.duplicate {
            return Err("an event is told as a duplicate at its first append; two in the feed have one id".into());
        }
        positions.push(receipt.position.ok_or("an append was answered without a position")?);
    }
    Ok(positions)
}

/// Appends in batches, each event under its own id.
async fn append_all<B: AckGroups + Dedup>(
    stream: &KeyedStream<QuakeRecorded, B>,
    entries: &[QuakeRecorded],
) -> Result<Vec<Receipt>, Failure> {
    let mut receipts = Vec::new();
    for batch in entries.chunks(BATCH) {
        let appends = batch.iter().map(|entry| Append::of(entry).id(&*entry.event));
        for receipt in stream.append_all(appends).await? {
            receipts.push(receipt?);
        }
    }
    Ok(receipts)
}

/// Everything that is pending for a consumer.
async fn pending_for<B: AckGroups>(
    group: &AckGroup<QuakeRecorded, B>,
    consumer: &str,
) -> Result<HashSet<Position>, Failure> {
    let mut found = HashSet::new();
    let mut after = None;
    loop {
        let page = group.pending(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.position);
        found.extend(page.iter().filter(|entry| entry.consumer == consumer).map(|entry| entry.position));
    }
}

/// Waits for a worker that ends. Nobody has stopped them yet, so one that does has failed, but for the one that was killed.
async fn first_to_end(workers: &mut JoinSet<Result<Ended, Error>>) -> Result<(), Failure> {
    while let Some(ended) = workers.join_next().await {
        if ended.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
            continue;
        }
        ended_well(ended)?;
        return Err("a worker ended before it was stopped".into());
    }
    Err("every worker is gone".into())
}

fn ended_well(ended: Result<Result<Ended, Error>, tokio::task::JoinError>) -> Result<(), Failure> {
    match ended {
        Err(killed) if killed.is_cancelled() => Ok(()),
        ended => match ended?? {
            Ended::Stopped => Ok(()),
            other => Err(format!("a worker ended early: {other:?}").into()),
        },
    }
}
