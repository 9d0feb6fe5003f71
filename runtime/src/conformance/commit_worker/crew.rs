//! Workers that share a stream's partitions and write down what they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::broker::{Limits, lock};
use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Crew, Hand, Seen, Work, quick};
use crate::stream::{CommitGroup, Position, Start, StreamSettings};
use crate::topic::{Gap, Stop};
use crate::worker::Worker;

/// One broker's handles to the stream and a commit group.
pub(super) type Sharers<B> = Crew<B, CommitGroup<Work, B>>;

impl<B: CommitGroups> Crew<B, CommitGroup<Work, B>> {
    /// Starts with an empty stream and a group.
    pub(super) async fn sharing<S: Subject<Backend = B>>(rule: Rule, subject: &S, partitions: u32) -> Self {
        Self::sharing_of(rule, subject, StreamSettings::new().partitions(partitions)).await
    }

    pub(super) async fn sharing_of<S: Subject<Backend = B>>(rule: Rule, subject: &S, settings: StreamSettings) -> Self {
        let crew = Self::sharing_beside(rule, subject, limits());
        rule.ok("deleting the stream of before", crew.stream.delete()).await;
        rule.ok("ensuring the stream", crew.stream.ensure(settings)).await;
        rule.ok("recording the group", crew.group.ensure(Start::Earliest)).await;
        crew
    }

    /// Another process's handles to the same, by a broker that has ensured nothing.
    pub(super) fn sharing_beside<S: Subject<Backend = B>>(rule: Rule, subject: &S, limits: Limits) -> Self {
        let broker = rule.broker_with(subject, limits);
        let stream = rule.unwrap("binding", Work::stream(&broker));
        let group = rule.unwrap("looking up the group", stream.commit_group("crew"));
        let (stop, gate) = (Stop::new(), Stop::new());
        Self { rule, broker, stream, group, journal: Arc::default(), stop, gate, numbers: Mutex::default() }
    }

    /// Makes a worker that writes down what it tells, and whose handler gets a hand.
    pub(super) fn sharer(&self, who: &'static str) -> Worker<Work, B, Hand, CommitGroup<Work, B>> {
        let (noted, told) = (self.journal.clone(), self.journal.clone());
        self.group
            .worker()
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

    /// How much isn't committed, in all partitions.
    pub(super) async fn left(&self) -> u64 {
        let lag = self.rule.ok("counting", self.group.lag()).await;
        lag.iter().map(|lag| lag.records).sum()
    }

    /// Waits until so much isn't committed.
    pub(super) async fn leaves(&self, what: &str, expected: u64) {
        let last = Mutex::new(0);
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
        let seen = tokio::time::timeout(crate::conformance::PATIENCE, look).await;
        assert!(seen.is_ok(), "{}: {what}: {} aren't committed, not {expected}", self.rule.0, lock(&last));
    }

    /// The number up to which a partition is committed.
    pub(super) async fn committed_number(&self, partition: u32) -> Option<u64> {
        let committed = self.rule.ok("asking", self.group.committed()).await;
        committed.get(partition).map(|position| self.number(position))
    }

    /// Where a number stands.
    pub(super) fn position(&self, n: u64) -> Option<Position> {
        lock(&self.numbers).iter().find(|(_, number)| **number == n).map(|(position, _)| *position)
    }

    /// The numbers of each partition, in order.
    pub(super) fn by_partition(&self) -> BTreeMap<u32, Vec<u64>> {
        let mut places: Vec<(Position, u64)> = lock(&self.numbers).iter().map(|(at, n)| (*at, *n)).collect();
        places.sort_unstable_by_key(|(at, _)| at.offset());
        let mut numbers: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (at, n) in places {
            numbers.entry(at.partition()).or_default().push(n);
        }
        numbers
    }

    /// Says that deliveries of one key were handled one at a time and in order.
    pub(super) fn in_order(&self, keys: u64) {
        let mut running = BTreeMap::new();
        let mut last = BTreeMap::new();
        for seen in self.journal.seen() {
            match seen {
                Seen::Began { n, .. } => {
                    let other = running.insert(n % keys, n);
                    self.rule.that(other.is_none(), &format!("{n} and {other:?} of one key at once"));
                    let before = last.insert(n % keys, n);
                    self.rule.that(before < Some(n), &format!("{n} was handled after {before:?} of its key"));
                }
                Seen::Done { n } | Seen::Dropped { n } => _ = running.remove(&(n % keys)),
                _ => {}
            }
        }
    }
}

pub(super) fn began(seen: &[Seen]) -> usize {
    crate::conformance::worker::crew::count(seen, |seen| matches!(seen, Seen::Began { .. }))
}
