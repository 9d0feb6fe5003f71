//! The whole run, on any backend that has cursors.

use std::time::{Duration, SystemTime};

use tidings::capability::Cursors;
use tidings::{Append, Broker, Config, DurableInfo, DurableOwner, Ended, KeyedStream, Namespace, Stop, StreamSettings};
use tidings_examples::Failure;
use tokio::time::{Instant, sleep, timeout};

use crate::agents;
use crate::entry::QuakeReported;
use crate::module::{self, Totals};
use crate::tally::Tally;

/// How many events are appended at a time.
const BATCH: usize = 100;
/// How long connecting and closing may take, and how long the work.
const PATIENCE: Duration = Duration::from_secs(15);
const WORK: Duration = Duration::from_mins(1);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) server: String,
    pub(crate) appended: usize,
    /// Of each owner what it did, and what its durable says at the end.
    pub(crate) owners: [(DurableOwner, Tally, DurableInfo); 3],
    pub(crate) took: Duration,
}

/// Appends everything, and lets agents and module work.
pub(crate) async fn on<B: Cursors>(backend: B, quakes: &[QuakeReported]) -> Result<Outcome, Failure> {
    // A stream stays on its server. So each run has an environment of its own, and takes its stream away again.
    #[allow(clippy::disallowed_methods, reason = "it is a name, and no time that anything waits for")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let namespace = Namespace::new("agents", format!("run-{now}-{}", std::process::id()))?;
    let broker = Broker::new(backend, Config::new(namespace))?;
    let stream = QuakeReported::stream(&broker)?;
    let outcome = run(&stream, quakes).await;
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

async fn run<B: Cursors>(stream: &KeyedStream<QuakeReported, B>, quakes: &[QuakeReported]) -> Result<Outcome, Failure> {
    let checked = stream.broker().check(PATIENCE).await?;
    if !checked.problems.is_empty() {
        return Err(checked.problems.join("; ").into());
    }
    stream.ensure(StreamSettings::new()).await?;
    let owners = [DurableOwner::agent("triage")?, DurableOwner::agent("alaska")?, DurableOwner::module("totals")?];
    let settings = [agents::triage_settings(), agents::alaska_settings(), module::settings()];
    for (owner, settings) in owners.iter().zip(settings) {
        stream.durable(owner)?.ensure(settings).await?;
    }

    let started = Instant::now();
    let [triage, alaska, totals] = &owners;
    // Binding creates nothing: an agent whose durable isn't there is told at once.
    let (first, second) = (stream.cursor(triage).await?, stream.cursor(alaska).await?);
    let appended = append(stream, quakes).await?;
    let (triaged, handled, totalled) = timeout(WORK, async {
        tokio::try_join!(agents::triage(first), agents::alaska(second), total(stream, totals, quakes.len()))
    })
    .await
    .map_err(|_| format!("it isn't done after {WORK:?}"))??;
    let took = started.elapsed();

    let mut results = Vec::new();
    for (owner, tally) in owners.into_iter().zip([triaged, handled, totalled]) {
        let info = stream.durable(&owner)?.info().await?;
        results.push((owner, tally, info));
    }
    let owners = results.try_into().map_err(|_| "there are three owners")?;
    Ok(Outcome { server: checked.server, appended, owners, took })
}

/// Appends in batches, each event under its own id.
async fn append<B: Cursors>(
    stream: &KeyedStream<QuakeReported, B>,
    quakes: &[QuakeReported],
) -> Result<usize, Failure> {
    let mut appended = 0;
    for batch in quakes.chunks(BATCH) {
        for receipt in stream.append_all(batch.iter().map(Append::of)).await? {
            receipt?;
            appended += 1;
        }
    }
    Ok(appended)
}

/// Runs the module's worker until everything is settled.
async fn total<B: Cursors>(
    stream: &KeyedStream<QuakeReported, B>,
    owner: &DurableOwner,
    events: usize,
) -> Result<Tally, Failure> {
    let durable = stream.durable(owner)?;
    let (totals, stop) = (Totals::default(), Stop::new());
    let working = totals.clone().work(durable.clone(), stop.clone());
    let watching = async {
        loop {
            let info = durable.info().await?;
            let acknowledged = totals.tally().acknowledged;
            if acknowledged >= events as u64 && info.waiting == 0 && info.in_flight == 0 {
                stop.stop();
                return Ok::<_, Failure>(());
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let (ended, ()) = tokio::try_join!(async { Ok(working.await?) }, watching)?;
    if ended != Ended::Stopped {
        return Err(format!("the worker ended early: {ended:?}").into());
    }
    let tally = totals.tally().clone();
    Ok(tally)
}
