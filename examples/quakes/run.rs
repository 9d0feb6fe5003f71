//! The whole run, on any backend that has patterns.

use std::time::Duration;

use tidings::capability::PatternPubSub;
use tidings::{Broker, Config, Ended, Error, KeyedTopic, Namespace, Stop, SubscribeOptions};
use tidings_examples::Failure;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::cut::Cut;
use crate::follow::{Follower, Interest};
use crate::journal::Journal;
use crate::quake::QuakeReported;
use crate::report::Progress;

/// How many events are published at a time, and how often: the week takes about a second and a half.
const BATCH: usize = 25;
const PACE: Duration = Duration::from_millis(20);
/// How long connecting, subscribing and closing may take, and how long the last event may be on its way.
const PATIENCE: Duration = Duration::from_secs(10);

/// A run that is about to start.
pub(crate) struct Run {
    quakes: Vec<QuakeReported>,
    journal: Journal,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) server: String,
    pub(crate) followers: Vec<Follower>,
    /// How many events were published.
    pub(crate) published: usize,
    /// How many copies were handed out, where the backend counts them.
    pub(crate) heard: Option<u64>,
    pub(crate) took: Duration,
    /// Whether the connection was cut, so that every follower must have been told of a gap.
    pub(crate) cut: bool,
}

impl Run {
    pub(crate) fn new(quakes: Vec<QuakeReported>) -> Self {
        Self { quakes, journal: Journal::default() }
    }

    /// Publishes everything and lets the followers follow. `cut` loses the connection half-way.
    pub(crate) async fn on<B: PatternPubSub>(self, backend: B, cut: Option<Cut>) -> Result<Outcome, Failure> {
        // An environment of its own, so that two runs on one server never meet.
        let namespace = Namespace::new("quakes", format!("run-{}", std::process::id()))?;
        let broker = Broker::new(backend, Config::new(namespace))?;
        let outcome = self.with(&broker, cut).await;
        // Close waits for everything that the broker owns; what doesn't end in time is named in the error.
        let closed = broker.close(PATIENCE).await;
        let outcome = outcome?;
        closed?;
        Ok(outcome)
    }

    async fn with<B: PatternPubSub>(self, broker: &Broker<B>, cut: Option<Cut>) -> Result<Outcome, Failure> {
        let Self { quakes, journal } = self;
        // A topic never slows its publisher: a subscription that falls behind by more than its buffer ends with
        // `Overflow`. So the buffer takes the largest burst that is expected, here the whole feed. Should that not be
        // enough, it is a gap like any other, and the follower catches up from the journal.
        let topic = QuakeReported::topic(broker)?;
        let topic = topic.with_options(SubscribeOptions::new().buffer_messages(quakes.len()))?;

        // A supervision goes on trying to reach a server that isn't there; a person rather hears of it now. With the
        // topic bound, the check also says whether the user has the rights to it.
        let checked = broker.check(PATIENCE).await?;
        if !checked.problems.is_empty() {
            return Err(checked.problems.join("; ").into());
        }

        let stop = Stop::new();
        let mut supervisions = JoinSet::new();
        let followers = Interest::all().map(|interest| Follower::new(interest, journal.clone()));
        for follower in followers.clone() {
            supervisions.spawn(follower.follow(topic.clone(), stop.clone()));
        }
        let mut outcome = Outcome {
            server: checked.server,
            followers: followers.to_vec(),
            published: 0,
            heard: Some(0),
            took: Duration::ZERO,
            cut: cut.is_some(),
        };
        tokio::select! {
            done = publish(broker, &topic, quakes, &journal, &mut outcome, cut) => done?,
            // Nobody has stopped them yet, so one that ends early has failed.
            Some(ended) = supervisions.join_next() => ended_well(ended)?,
        }
        stop.stop();
        while let Some(ended) = supervisions.join_next().await {
            ended_well(ended)?;
        }
        Ok(outcome)
    }
}

/// Publishes in batches, at a pace, and waits until the followers are where they should be.
async fn publish<B: PatternPubSub>(
    broker: &Broker<B>,
    topic: &KeyedTopic<QuakeReported, B>,
    mut quakes: Vec<QuakeReported>,
    journal: &Journal,
    outcome: &mut Outcome,
    mut cut: Option<Cut>,
) -> Result<(), Failure> {
    // What is published before a subscription is ready isn't heard by it, and that is no gap.
    let subscribed = async {
        while broker.stats().live < outcome.followers.len() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if timeout(PATIENCE, subscribed).await.is_err() {
        // A supervision goes on trying and logs why; a subscription of its own is told at once.
        topic.subscribe_all().await?;
        return Err("not every follower could subscribe in time".into());
    }

    let started = Instant::now();
    let mut progress = Progress::new(quakes.len());
    let mut pace = interval(PACE);
    let half = quakes.len() / 2;
    for batch in quakes.chunks_mut(BATCH) {
        pace.tick().await;
        if outcome.published >= half
            && let Some(cut) = cut.take()
        {
            cut.cut().await?;
        }
        // The state first, then the news of it: who reads the state after a gap finds everything that was published.
        journal.record(batch);
        for heard in topic.publish_all(&*batch).await? {
            let count = heard?.count();
            outcome.heard = outcome.heard.zip(count).map(|(all, count)| all + count);
        }
        outcome.published += batch.len();
        progress.show(outcome);
    }
    let is_done = |follower: &Follower| follower.is_caught_up() && !(outcome.cut && follower.seen().gaps.is_empty());
    let caught_up = async {
        while !outcome.followers.iter().all(is_done) {
            sleep(Duration::from_millis(5)).await;
            progress.show(outcome);
        }
    };
    // Those who aren't there by then are reported with what they lack.
    let _ = timeout(PATIENCE, caught_up).await;
    outcome.took = started.elapsed();
    Ok(())
}

fn ended_well(ended: Result<Result<Ended, Error>, tokio::task::JoinError>) -> Result<(), Failure> {
    match ended?? {
        Ended::Stopped => Ok(()),
        other => Err(format!("a follower ended early: {other:?}").into()),
    }
}
