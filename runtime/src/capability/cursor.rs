//! Durables, which hand out deliveries one by one and count their attempts.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use super::{BackendError, GroupAddress, Log, Stored};
use crate::stream::{DurableInfo, DurableSettings, Position};

/// Durables: named places in a stream on the server, which hand out deliveries and take one settlement for each.
///
/// A durable's name in its [`GroupAddress`] is `c_{id}` for an agent's and `m_{id}` for a module's.
///
/// 1. [`ensure_durable`](Self::ensure_durable) creates the durable, where the stream exists, and says whether it did. One
///    that is there with the same settings stays where it is, whatever the start; with others it is `Conflict`. It is the
///    only operation that makes one: every other one on a missing durable or stream is `Absent`. None makes a stream.
/// 2. [`update_durable`](Self::update_durable) changes everything but where it began, and what is unsettled stays so.
/// 3. [`bind_durable`](Self::bind_durable) finds the durable and makes a handle. Handles share the durable's deliveries.
/// 4. At most [`in_flight`](DurableSettings::in_flight) deliveries are unsettled at a time, over all handles; those that
///    wait for their next attempt count. So with 1 nothing overtakes.
/// 5. The first attempt is 1. What isn't settled within its ack wait, or is refused by [`Verdict::Nak`] when its delay
///    is over, is handed out again as one attempt more, to any handle.
/// 6. What would be handed out for more than [`max_deliver`](DurableSettings::max_deliver) times never is again, stays in
///    the stream, and is told to the handles that are bound then, as [`Pulled::Exhausted`].
/// 7. Where records were removed from the stream before any handle was handed them, the handle that gets the next one is
///    told first, as [`Pulled::Trimmed`]; others may be with what they get later. Under a
///    [`prefix`](DurableSettings::prefix) it may be untold. What is removed after it was handed out comes no more and holds
///    up nothing.
/// 8. What is acknowledged or terminated never comes again, also after the server was killed.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no cursors",
    label = "this backend has no durable with one delivery in flight",
    note = "cursors need `Cursors`: use `backend::Memory` or `backend::Nats`, or an ack group (`requires(ack_groups)`) or a commit group (`requires(commit_groups)`) where the backend has one",
    note = "in generic code add the bound `B: tidings::capability::Cursors`"
)]
pub trait Cursors: Log {
    /// A handle to a durable.
    type Durable: BoundDurable;

    /// Creates the durable.
    fn ensure_durable(
        client: &Self::Client,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Changes the durable. A change that the system can't make is `Conflict`.
    fn update_durable(
        client: &Self::Client,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Removes the durable, and says whether it was there. Its handles' calls are `Absent` from then on, those that wait too.
    fn delete_durable(
        client: &Self::Client,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Returns how the durable is set up and how far it is.
    fn inspect_durable(
        client: &Self::Client,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<DurableInfo, BackendError>> + Send;

    /// Makes a handle to a durable that is there.
    fn bind_durable(
        client: &Self::Client,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<Self::Durable, BackendError>> + Send;
}

/// A handle to a durable, from [`Cursors::bind_durable`].
///
/// 1. [`pull`](Self::pull) takes at most `max` deliveries and waits up to `wait` for the first. An empty answer after that
///    is no error. What a call asked the system for and didn't return, since it was dropped or had fewer than `max`, counts
///    towards the next call's `max` and is returned by it, as long as its ack wait lasts. One call runs at a time.
/// 2. Those whose time has come again are handed out before new ones, and new ones in the stream's order.
/// 3. [`settle`](Self::settle) answers for each, in that order, once the server has recorded it. It isn't fenced: a
///    verdict counts for whatever attempt is under way, and changes nothing where none is. Of a delivery that the server
///    has forgotten and hands out again it says [`Forgotten`](crate::ErrorKind::Forgotten).
/// 4. After an error of the connection the next call goes on. A call of a durable that is gone is `Absent`, at once.
/// 5. [`release`](Self::release) refuses, without a delay, what came for a dropped pull and nobody took. A handle that is
///    dropped without settles nothing.
pub trait BoundDurable: Send + Sync + 'static {
    /// Takes deliveries.
    fn pull(&self, max: usize, wait: Duration) -> impl Future<Output = Result<Vec<Pulled>, BackendError>> + Send;

    /// Settles deliveries of this durable.
    fn settle(&self, settlements: Vec<(Ticket, Verdict)>)
    -> impl Future<Output = Vec<Result<(), BackendError>>> + Send;

    /// Gives back what came and wasn't taken, where the system still answers.
    fn release(&self) -> impl Future<Output = ()> + Send;
}

/// What a durable hands out.
#[derive(Clone, Debug)]
// Nearly all are deliveries.
#[allow(clippy::large_enum_variant)]
pub enum Pulled {
    /// A delivery.
    Delivery(Stored, Ticket),
    /// A record that was handed out as often as it may be, and was never settled.
    Exhausted(Position),
    /// Records that were removed from the stream before they were handed out.
    Trimmed {
        /// After which it would have gone on, as far as the handle knows; `None` before the first.
        after: Option<Position>,
        /// The first that is left, which comes next.
        first: Position,
    },
}

/// Names a delivery to its durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Where the record stands.
    pub position: Position,
    /// What the system knows the delivery by, such as an address for its settlement.
    pub token: Bytes,
}

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done.
    Ack,
    /// It is to come again after so long.
    Nak(Duration),
    /// It is never to come again, for a reason that is recorded where it can be.
    Term(String),
    /// Work on it goes on: its ack wait begins anew.
    InProgress,
}
