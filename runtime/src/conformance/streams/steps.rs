//! Steps that many properties take.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::Streams;
use super::entries::Entry;
use crate::broker::Limits;
use crate::capability::{AckGroups, Log};
use crate::codec::Decode;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Outcome};
use crate::stream::{AckGroup, Consumer, Delivery, Position, Receipt, Start, Stream, StreamSettings};

/// The stream that most properties use.
pub(in crate::conformance) type Entries<S> = Stream<Entry, <S as Subject>::Backend>;
/// A group of it.
pub(in crate::conformance) type Group<S> = AckGroup<Entry, <S as Subject>::Backend>;

/// Long enough for one that waits to be woken, and less than a property's patience.
pub(in crate::conformance) const LONG: Duration = Duration::from_secs(8);
/// What nothing has been idle for.
pub(in crate::conformance) const HOUR: Duration = Duration::from_hours(1);
/// More than any property appends.
pub(in crate::conformance) const ALL: usize = 4_096;

impl Rule {
    /// Binds the stream of entries to a broker of its own.
    pub(in crate::conformance) fn bound<S: Streams>(self, subject: &S) -> Entries<S> {
        self.bound_with(subject, limits())
    }

    pub(in crate::conformance) fn bound_with<S: Streams>(self, subject: &S, limits: Limits) -> Entries<S> {
        self.unwrap("binding", Entry::stream(&self.broker_with(subject, limits)))
    }

    /// Binds the stream of entries to a broker of its own and creates it, with one partition that keeps everything.
    pub(in crate::conformance) async fn entries<S: Streams>(self, subject: &S) -> Entries<S> {
        self.entries_of(subject, StreamSettings::new()).await
    }

    pub(in crate::conformance) async fn entries_of<S: Streams>(
        self,
        subject: &S,
        settings: StreamSettings,
    ) -> Entries<S> {
        let stream = self.bound(subject);
        self.ok("creating the stream", stream.ensure(settings)).await;
        stream
    }

    /// Looks up a group and creates it at the first record.
    pub(in crate::conformance) async fn group<S: Streams<Backend: AckGroups>>(
        self,
        stream: &Entries<S>,
        name: &str,
    ) -> Group<S> {
        let group = self.unwrap("looking up a group", stream.ack_group(name));
        let created = self.ok("creating a group", group.ensure(Start::Earliest)).await;
        self.that(created, "a group that wasn't there must be created");
        group
    }

    pub(in crate::conformance) fn consumer<B: AckGroups>(
        self,
        group: &AckGroup<Entry, B>,
        name: &str,
    ) -> Consumer<Entry, B> {
        self.unwrap("making a consumer", group.consumer(name))
    }

    /// Appends numbers under one key, one after the other, and returns where they stand.
    pub(in crate::conformance) async fn fill<B: Log>(
        self,
        stream: &Stream<Entry, B>,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Vec<Position> {
        let mut positions = Vec::new();
        for n in numbers {
            let receipt = self.ok("appending", stream.append(&1, &Entry { n })).await;
            positions.push(self.stored("appending", receipt));
        }
        positions
    }

    /// Says that something was stored, and where.
    #[track_caller]
    pub(in crate::conformance) fn stored(self, what: &str, receipt: Receipt) -> Position {
        self.that(!receipt.duplicate, &format!("{what}: told as a duplicate"));
        let Some(position) = receipt.position else { panic!("{}: {what}: no position was told", self.0) };
        position
    }

    /// Reads at once.
    pub(in crate::conformance) async fn read<B: Log>(
        self,
        what: &str,
        stream: &Stream<Entry, B>,
        from: impl Into<Start>,
    ) -> Vec<Delivery<Entry>> {
        self.ok(what, stream.read(from, ALL, Duration::ZERO)).await
    }

    /// Says what is read at once.
    pub(in crate::conformance) async fn reads<B: Log>(
        self,
        what: &str,
        stream: &Stream<Entry, B>,
        from: impl Into<Start>,
        expected: impl IntoIterator<Item = u64>,
    ) {
        let got = self.numbers(what, &self.read(what, stream, from).await);
        self.same(what, got, expected.into_iter().collect::<Vec<_>>());
    }

    /// Says what a consumer gets at once, of at most so many, and returns it.
    pub(in crate::conformance) async fn takes<B: AckGroups>(
        self,
        what: &str,
        consumer: &Consumer<Entry, B>,
        max: usize,
        expected: impl IntoIterator<Item = u64>,
    ) -> Vec<Delivery<Entry>> {
        let got = self.ok(what, consumer.read(max, Duration::ZERO)).await;
        self.same(what, self.numbers(what, &got), expected.into_iter().collect::<Vec<_>>());
        got
    }

    /// Says what a consumer claims at once, and that nothing was lost.
    pub(in crate::conformance) async fn claims<B: AckGroups>(
        self,
        what: &str,
        consumer: &Consumer<Entry, B>,
        idle: Duration,
        max: usize,
        expected: impl IntoIterator<Item = u64>,
    ) -> Vec<Delivery<Entry>> {
        let got = self.ok(what, consumer.claim(idle, max)).await;
        self.same(what, self.numbers(what, &got.deliveries), expected.into_iter().collect::<Vec<_>>());
        self.same(what, got.lost, Vec::<Position>::new());
        got.deliveries
    }

    /// The values of deliveries, which must be some.
    #[track_caller]
    pub(in crate::conformance) fn numbers(self, what: &str, deliveries: &[Delivery<Entry>]) -> Vec<u64> {
        deliveries.iter().map(|delivery| self.number(what, delivery)).collect()
    }

    #[track_caller]
    pub(in crate::conformance) fn number(self, what: &str, delivery: &Delivery<Entry>) -> u64 {
        match delivery.value() {
            Ok(entry) => entry.n,
            Err(poison) => panic!("{}: {what}: {poison}", self.0),
        }
    }

    /// Says that a failure didn't happen, and why.
    #[track_caller]
    pub(in crate::conformance) fn refused(self, what: &str, error: &Error, kind: ErrorKind) {
        let is_so = (error.kind(), error.outcome()) == (kind, Outcome::NotApplied);
        self.that(is_so, &format!("{what}: got {error:?}, not {kind:?}, which didn't happen"));
    }

    /// Waits until everything that is pending has been idle so long.
    pub(in crate::conformance) async fn idles<B: AckGroups>(self, group: &AckGroup<Entry, B>, idle: Duration) {
        self.eventually("what is pending gets idle", async || {
            let pending = self.ok("listing what is pending", group.pending(None, ALL)).await;
            !pending.is_empty() && pending.iter().all(|entry| entry.idle >= idle)
        })
        .await;
    }

    /// Appends under the key 1, in batches, until a record is gone and all before it, and returns the first left of its
    /// partition.
    pub(in crate::conformance) async fn overrun<S: Streams>(
        self,
        subject: &S,
        stream: &Entries<S>,
        gone: Position,
    ) -> Position {
        let batch: Vec<_> = (1_000..1_100).map(|n| Entry { n }).collect();
        loop {
            let outcomes = self.ok("appending", stream.append_all(batch.iter().map(|entry| (&1, entry)))).await;
            let told: Vec<_> = outcomes
                .into_iter()
                .map(|outcome| self.stored("appending", self.unwrap("appending", outcome)))
                .collect();
            if !S::COUNTS {
                // All but the last, as where one is kept.
                let last = told[told.len() - 2];
                self.within("removing past the backend", subject.remove_raw(stream.address(), last)).await;
            }
            let left = self.read("reading what is left", stream, Start::Earliest).await;
            let first = left.iter().map(Delivery::position).find(|left| left.partition() == gone.partition());
            if let Some(first) = first.filter(|first| *first > gone) {
                return first;
            }
        }
    }
}

/// Settings of so many partitions, or of as many as the system can have.
pub(in crate::conformance) fn parted<S: Streams>(partitions: u32) -> StreamSettings {
    StreamSettings::new().partitions(partitions.min(S::PARTITIONS))
}

/// The settings of a stream that keeps as few records as the system can be told to.
pub(in crate::conformance) fn short<S: Streams>() -> StreamSettings {
    if S::COUNTS { StreamSettings::new().max_len(1) } else { StreamSettings::new() }
}

/// Begins after a position, or at the first record.
pub(in crate::conformance) fn behind(last: Option<Position>) -> Start {
    last.map_or(Start::Earliest, Start::from)
}

pub(in crate::conformance) fn places<T: StreamSpec>(deliveries: &[Delivery<T>]) -> Vec<Position>
where
    T::Codec: Decode<T>,
{
    deliveries.iter().map(Delivery::position).collect()
}

/// Uses the task's budget up but for so much, so that what counts against it ends a step where it does.
pub(in crate::conformance) async fn spend(left: u64) {
    // What a step has is counted in one of them.
    tokio::task::yield_now().await;
    let mut all = 0;
    while tokio::task::coop::has_budget_remaining() {
        tokio::task::coop::consume_budget().await;
        all += 1;
    }
    tokio::task::yield_now().await;
    for _ in left..all {
        tokio::task::coop::consume_budget().await;
    }
}

/// Begins something and gives it up after so many steps. Says whether it was done by then.
pub(in crate::conformance) async fn give_up<F: Future>(begun: F, steps: u64) -> Option<F::Output> {
    let mut begun = pin!(begun);
    for _ in 0..steps {
        if let Poll::Ready(output) = begun.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Awaits all at once, and returns their outputs in order.
pub(in crate::conformance) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut ready = true;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *output = Some(done),
                    Poll::Pending => ready = false,
                }
            }
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Waits until the machine's clock has moved on by some milliseconds, which a paused clock doesn't stop, and returns a
/// time between what came before and what comes after.
#[allow(clippy::disallowed_methods, reason = "systems go by the machine's clock")]
pub(in crate::conformance) async fn later() -> SystemTime {
    const STEP: Duration = Duration::from_millis(5);
    let moved = async |from: SystemTime| {
        loop {
            let now = SystemTime::now();
            if now.duration_since(from).is_ok_and(|passed| passed >= STEP) {
                return now;
            }
            tokio::task::yield_now().await;
        }
    };
    let between = moved(SystemTime::now()).await;
    moved(between).await;
    between
}
