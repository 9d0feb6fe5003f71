//! Steps that many properties of durables take.

use std::time::Duration;

use tokio::time::Instant;

use crate::capability::{BoundDurable, Cursors, Pulled, Stored, Ticket, Verdict};
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::conformance::{Streams, Subject};
use crate::error::Operation;
use crate::stream::{Cursor, Durable, DurableInfo, DurableOwner, DurableSettings, InFlight, Position, Stream};

/// A durable of the stream that most properties use.
pub(super) type Mine<S> = Durable<Entry, <S as Subject>::Backend>;

/// How long one of many calls waits.
pub(super) const SOON: Duration = Duration::from_millis(50);
/// Long enough for what mustn't happen, had it begun to.
pub(super) const AWHILE: Duration = Duration::from_millis(600);
/// An ack wait that a property waits for.
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// What may come after its time, on a busy machine.
const LATE: Duration = Duration::from_secs(3);
/// What seems to come before its time where it began before it was seen.
const EARLY: Duration = Duration::from_millis(250);

impl Rule {
    pub(super) fn module(self, id: &str) -> DurableOwner {
        DurableOwner::module(id).unwrap_or_else(|error| panic!("{}: naming an owner: {error}", self.0))
    }

    /// Looks up a module's durable.
    pub(super) fn durable<B: Cursors>(self, stream: &Stream<Entry, B>, id: &str) -> Durable<Entry, B> {
        self.unwrap("looking up a durable", stream.durable(&self.module(id)))
    }

    /// The same durable by another broker.
    pub(super) fn far<S: Streams<Backend: Cursors>>(self, subject: &S, id: &str) -> Mine<S> {
        self.durable(&self.bound(subject), id)
    }

    /// Looks up a module's durable and creates it.
    pub(super) async fn created<B: Cursors>(
        self,
        stream: &Stream<Entry, B>,
        id: &str,
        settings: DurableSettings,
    ) -> Durable<Entry, B> {
        let durable = self.durable(stream, id);
        let created = self.ok("creating a durable", durable.ensure(settings)).await;
        self.that(created, "a durable that wasn't there must be created");
        durable
    }

    pub(super) async fn cursor<B: Cursors>(self, durable: &Durable<Entry, B>) -> Cursor<Entry, B> {
        self.ok("binding a cursor", durable.cursor()).await
    }

    /// Creates a durable, and binds a cursor to it here and in another broker.
    pub(super) async fn two_cursors<S: Streams<Backend: Cursors>>(
        self,
        subject: &S,
        stream: &Stream<Entry, S::Backend>,
        id: &str,
        settings: DurableSettings,
    ) -> [Cursor<Entry, S::Backend>; 2] {
        let durable = self.created(stream, id, settings).await;
        [self.cursor(&durable).await, self.cursor(&self.far(subject, id)).await]
    }

    /// Says which delivery comes next, and as which attempt.
    pub(super) async fn hands<'a, B: Cursors>(
        self,
        what: &str,
        cursor: &'a mut Cursor<Entry, B>,
        n: u64,
        attempt: u32,
    ) -> InFlight<'a, Entry, B> {
        let next = self.ok(what, cursor.next()).await;
        self.same(what, (self.number(what, &next), next.attempt()), (n, attempt));
        next
    }

    /// Says what comes, each for the first time, and acknowledges it.
    pub(super) async fn done<B: Cursors>(
        self,
        what: &str,
        cursor: &mut Cursor<Entry, B>,
        numbers: impl IntoIterator<Item = u64>,
    ) {
        for n in numbers {
            self.ok(what, self.hands(what, cursor, n, 1).await.ack()).await;
        }
    }

    /// Says that nothing comes for so long.
    pub(super) async fn hands_nothing<B: Cursors>(self, what: &str, cursor: &mut Cursor<Entry, B>, wait: Duration) {
        if let Some(next) = self.ok(what, cursor.next_within(wait)).await {
            let got = (self.number(what, &next), next.attempt());
            panic!("{}: {what}: got {got:?} where there must be nothing", self.0);
        }
    }

    pub(super) async fn info<B: Cursors>(self, durable: &Durable<Entry, B>) -> DurableInfo {
        self.ok("asking how far it is", durable.info()).await
    }

    /// Says how far a durable is: what waits, what is in flight, and up to where everything is settled.
    pub(super) async fn stands<B: Cursors>(
        self,
        what: &str,
        durable: &Durable<Entry, B>,
        (waiting, in_flight): (u64, u64),
        settled: impl Into<Option<Position>>,
    ) {
        let info = self.info(durable).await;
        self.same(what, (info.waiting, info.in_flight, info.settled.get(0)), (waiting, in_flight, settled.into()));
    }

    /// Says that so much has passed, and not much more.
    #[track_caller]
    pub(super) fn took(self, what: &str, since: Instant, expected: Duration) {
        let took = since.elapsed();
        let right = took + EARLY >= expected && took < expected + LATE;
        self.that(right, &format!("{what}: after {took:?}, not {expected:?}"));
    }

    /// Binds a handle, as a worker does.
    pub(super) async fn handle<B: Cursors>(self, durable: &Durable<Entry, B>) -> B::Durable {
        self.ok("binding a handle", durable.bind(Operation::Bind)).await
    }

    /// Takes at most so many.
    pub(super) async fn pulls<D: BoundDurable>(
        self,
        what: &str,
        handle: &D,
        max: usize,
        wait: Duration,
    ) -> Vec<(Stored, Ticket)> {
        let pulled = match self.within(what, handle.pull(max, wait)).await {
            Ok(pulled) => pulled,
            Err(failed) => panic!("{}: {what}: {failed:?}", self.0),
        };
        self.that(pulled.len() <= max, &format!("{what}: at most what was asked for"));
        let delivery = |pulled| match pulled {
            Pulled::Delivery(stored, ticket) => (stored, ticket),
            Pulled::Exhausted(position) => panic!("{}: {what}: {position} is told as exhausted", self.0),
            Pulled::Trimmed { first, .. } => panic!("{}: {what}: what was before {first} is told as removed", self.0),
        };
        pulled.into_iter().map(delivery).collect()
    }

    /// Has handles take in turn until these have come, each as this attempt; returns their tickets.
    pub(super) async fn pulls_each<D: BoundDurable>(
        self,
        what: &str,
        handles: &[&D],
        expected: &[(Position, u32)],
    ) -> Vec<Ticket> {
        let mut gathered = Vec::new();
        self.within(what, async {
            while gathered.len() < expected.len() {
                for handle in handles {
                    let left = expected.len() - gathered.len();
                    if left > 0 {
                        gathered.extend(self.pulls(what, *handle, left, SOON).await);
                    }
                }
            }
        })
        .await;
        let got: Vec<_> = gathered.iter().map(|(stored, _)| (stored.position, stored.attempt)).collect();
        self.same(what, &got[..], expected);
        gathered.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Settles, which must succeed for each.
    pub(super) async fn settles<D: BoundDurable>(self, what: &str, handle: &D, verdicts: Vec<(Ticket, Verdict)>) {
        let count = verdicts.len();
        let settled = self.within(what, handle.settle(verdicts)).await;
        self.same(&format!("{what}: an answer for each"), settled.len(), count);
        if let Some(failed) = settled.into_iter().find_map(Result::err) {
            panic!("{}: {what}: {failed:?}", self.0);
        }
    }
}
