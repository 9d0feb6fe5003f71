//! Workers that share a durable and write down what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::broker::{Limits, lock};
use crate::capability::{BoundDurable as _, Cursors, Pulled, Ticket, Verdict};
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Crew, Hand, Seen, Work, count, quick};
use crate::conformance::{PATIENCE, Streams, Subject};
use crate::error::Operation;
use crate::stream::{Durable, DurableOwner, DurableSettings, Start, StreamSettings};
use crate::topic::{Gap, Stop};
use crate::worker::Worker;

/// One broker's handles to the stream and a durable.
pub(super) type Takers<B> = Crew<B, Durable<Work, B>>;
/// A worker of the suite.
pub(super) type Taker<B> = Worker<Work, B, Hand, Durable<Work, B>>;

/// An ack wait that a property waits for. A stall of the machine mustn't be longer.
pub(super) const WAIT: Duration = Duration::from_millis(1_500);
/// What may come after its time, on a busy machine.
pub(super) const LATE: Duration = Duration::from_secs(3);
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// What somebody else took of the durable.
pub(super) struct Taken {
    pub(super) n: u64,
    pub(super) attempt: u32,
    ticket: Ticket,
}

/// Settings with room for everything.
pub(super) fn wide() -> DurableSettings {
    DurableSettings::new().in_flight(512)
}

/// How many partitions the suite's streams have, where the system has as many.
pub(super) fn partitions<S: Streams>() -> impl Iterator<Item = u32> {
    [1, 3].into_iter().filter(|partitions| *partitions <= S::PARTITIONS)
}

impl<B: Cursors> Crew<B, Durable<Work, B>> {
    /// Starts with a stream of one partition and a durable that has nothing to hand out.
    pub(super) async fn taking<S: Subject<Backend = B>>(rule: Rule, subject: &S, settings: DurableSettings) -> Self {
        Self::taking_with(rule, subject, 1, settings, limits()).await
    }

    pub(super) async fn taking_with<S: Subject<Backend = B>>(
        rule: Rule,
        subject: &S,
        partitions: u32,
        settings: DurableSettings,
        limits: Limits,
    ) -> Self {
        let crew = Self::taking_beside(rule, subject, limits);
        let streams = StreamSettings::new().partitions(partitions);
        // It goes on where the one of before ended. NATS was seen to bring records back in a stream that was removed and made
        // anew twice within a moment.
        if rule.within("ensuring the stream", crew.stream.ensure(streams.clone())).await.is_err() {
            rule.ok("deleting the stream of before", crew.stream.delete()).await;
            rule.ok("ensuring the stream", crew.stream.ensure(streams)).await;
        }
        rule.ok("deleting the durable of before", crew.group.delete()).await;
        let ended = B::start(crew.stream.client(), &crew.stream.bound.address, &Start::Latest);
        let ended = rule.ok("looking up the end", crew.stream.operate(Operation::Read, ended)).await;
        let created = rule.ok("ensuring the durable", crew.group.ensure(settings.start(ended))).await;
        rule.that(created, "a durable that was removed is created");
        crew
    }

    /// Another process's handles to the same, by a broker that has ensured nothing.
    pub(super) fn taking_beside<S: Subject<Backend = B>>(rule: Rule, subject: &S, limits: Limits) -> Self {
        let broker = rule.broker_with(subject, limits);
        let stream = rule.unwrap("binding", Work::stream(&broker));
        let group = rule.unwrap("looking up the durable", stream.durable(&owner("crew")));
        let (stop, gate) = (Stop::new(), Stop::new());
        Self { rule, broker, stream, group, journal: Arc::default(), stop, gate, numbers: Mutex::default() }
    }

    /// Makes a worker that writes down what it tells, and whose handler gets a hand.
    pub(super) fn taker(&self, who: &'static str) -> Taker<B> {
        let (noted, told) = (self.journal.clone(), self.journal.clone());
        self.group
            .worker()
            .retry_after(Duration::from_millis(20), Duration::from_millis(40))
            .backoff(quick())
            .with(self.hand(who))
            .until(&self.stop)
            .on_notice(move |notice| {
                if let Some(seen) = Seen::of(notice) {
                    noted.write(seen);
                }
            })
            .on_gap(move |gap: Gap, _| {
                told.write(Seen::Told(gap.cause));
                std::future::ready(Ok(()))
            })
    }

    /// How many records were never handed out, and how many deliveries aren't settled.
    pub(super) async fn left(&self) -> (u64, u64) {
        let info = self.rule.ok("asking how far the durable is", self.group.info()).await;
        (info.waiting, info.in_flight)
    }

    /// Waits until so much is left.
    pub(super) async fn leaves(&self, what: &str, expected: (u64, u64)) {
        let last = Mutex::new((0, 0));
        let look = async {
            loop {
                let left = self.left().await;
                if left == expected {
                    return;
                }
                *lock(&last) = left;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, look).await;
        assert!(seen.is_ok(), "{}: {what}: waiting and in flight are {:?}, not {expected:?}", self.rule.0, lock(&last));
    }

    /// Waits until the system answers.
    pub(super) async fn in_reach(&self) {
        self.rule.eventually("in reach again", async || self.group.info().await.is_ok()).await;
    }

    /// Binds a handle, as a worker does, which settles nothing by itself.
    pub(super) async fn handle(&self) -> B::Durable {
        self.rule.ok("binding a handle", self.group.bind(Operation::Bind)).await
    }

    /// Takes so many by a handle.
    pub(super) async fn takes(&self, what: &str, handle: &B::Durable, count: usize) -> Vec<Taken> {
        let mut taken = Vec::new();
        let taking = async {
            while taken.len() < count {
                let pulled = match handle.pull(count - taken.len(), Duration::from_millis(50)).await {
                    Ok(pulled) => pulled,
                    Err(failed) => panic!("{}: {what}: {failed:?}", self.rule.0),
                };
                for pulled in pulled {
                    let Pulled::Delivery(stored, ticket) = pulled else {
                        panic!("{}: {what}: told as given up", self.rule.0)
                    };
                    taken.push(Taken { n: self.number(stored.position), attempt: stored.attempt, ticket });
                }
            }
        };
        self.rule.within(what, taking).await;
        taken
    }

    /// Settles what was taken.
    pub(super) async fn settles(&self, what: &str, handle: &B::Durable, taken: Vec<Taken>, verdict: &Verdict) {
        let settlements = taken.into_iter().map(|taken| (taken.ticket, verdict.clone())).collect();
        let settled = self.rule.within(what, handle.settle(settlements)).await;
        if let Some(failed) = settled.into_iter().find_map(Result::err) {
            panic!("{}: {what}: {failed:?}", self.rule.0);
        }
    }

    /// Says that of one key one delivery at a time was handled.
    pub(super) fn one_at_a_time(&self, keys: u64) {
        let mut running = BTreeMap::new();
        for seen in self.journal.seen() {
            match seen {
                Seen::Began { n, .. } => {
                    let other = running.insert(n % keys, n);
                    self.rule.that(other.is_none(), &format!("{n} and {other:?} of one key at once"));
                }
                Seen::Done { n } | Seen::Dropped { n } => _ = running.remove(&(n % keys)),
                _ => {}
            }
        }
    }

    /// Says that deliveries of one key were handled one at a time and in order, each until it succeeded.
    pub(super) fn in_order(&self, keys: u64) {
        self.one_at_a_time(keys);
        let mut last: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let mut failed = BTreeSet::new();
        for seen in self.journal.seen() {
            match seen {
                Seen::Began { n, attempt, .. } => {
                    let before = last.insert(n % keys, (n, attempt));
                    if failed.remove(&(n % keys)) {
                        let again = before.map(|(n, attempt)| (n, attempt + 1));
                        self.rule.same("what comes after a failure in its key", Some((n, attempt)), again);
                    } else {
                        let in_order = before.is_none_or(|(before, _)| before < n);
                        self.rule.that(in_order, &format!("{n} was handled after {before:?} of its key"));
                        self.rule.same(&format!("the first attempt of {n}"), attempt, 1);
                    }
                }
                Seen::Dropped { n } => _ = failed.insert(n % keys),
                _ => {}
            }
        }
    }

    pub(super) fn retrying(&self) -> usize {
        count(&self.journal.seen(), |seen| matches!(seen, Seen::Retrying { .. }))
    }
}

pub(super) fn owner(id: &str) -> DurableOwner {
    DurableOwner::module(id).expect("the suite's ids are good")
}

pub(super) fn began(seen: &[Seen]) -> usize {
    count(seen, |seen| matches!(seen, Seen::Began { .. }))
}
