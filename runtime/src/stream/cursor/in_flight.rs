use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::{Cursor, Delivery};
use crate::call::Call;
use crate::capability::{Backend, Stored, Ticket, Verdict};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};

/// What a cursor took.
pub(super) type Taken = (Stored, Ticket);

/// A delay may be so long.
const LONGEST_DELAY: Duration = Duration::from_hours(24 * 365);
/// A reason may be so long, in bytes.
const LONGEST_REASON: usize = 1_024;

/// The delivery that a [`Cursor`] has in flight. Its value, key and headers are those of the [`Delivery`] within.
///
/// Settle it by one of [`ack`](Self::ack), [`nak`](Self::nak) and [`term`](Self::term), each of which takes it and returns
/// when the server has recorded it. Let go unsettled, it comes again once its ack wait is over, as one attempt more.
///
/// A settlement isn't fenced: where the ack wait was over and the record is with somebody else, an `ack` settles it for
/// them too. One of a durable that was made anew since is `Absent`.
#[must_use = "a delivery that is let go unsettled comes again after its ack wait; settle it by `ack`, `nak` or `term`"]
pub struct InFlight<'a, T: StreamSpec, B: Backend> {
    cursor: &'a Cursor<T, B>,
    delivery: Delivery<T>,
    ticket: Ticket,
}

impl<'a, T: StreamSpec + Send + 'static, B: Backend> InFlight<'a, T, B> {
    pub(super) fn new(cursor: &'a Cursor<T, B>, (stored, ticket): Taken) -> Self
    where
        T::Codec: Decode<T>,
    {
        Self { cursor, delivery: Delivery::decode(stored), ticket }
    }

    /// Settles it as done: it never comes again.
    ///
    /// # Errors
    ///
    /// `Absent` where the durable is gone; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`. What
    /// wasn't recorded comes again after the ack wait.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it may or may not be recorded.
    pub fn ack(self) -> Call<'a, ()> {
        self.settle(Verdict::Ack)
    }

    /// Refuses it for now: it comes again after `delay`, at most a year, as one attempt more. Until then the durable hands
    /// out nothing else, since nothing may overtake it.
    ///
    /// # Errors
    ///
    /// `Invalid` for a longer delay; otherwise as [`ack`](Self::ack).
    ///
    /// # Cancel safety
    ///
    /// As [`ack`](Self::ack).
    pub fn nak(self, delay: Duration) -> Call<'a, ()> {
        if delay > LONGEST_DELAY {
            return self.refused(format!("a delay of {delay:?}; give at most a year"));
        }
        self.settle(Verdict::Nak(delay))
    }

    /// Refuses it for ever, for a reason of at most 1,024 bytes on one line, which is recorded where the server can.
    ///
    /// # Errors
    ///
    /// `Invalid` for another reason; otherwise as [`ack`](Self::ack).
    ///
    /// # Cancel safety
    ///
    /// As [`ack`](Self::ack).
    pub fn term(self, reason: impl Into<String>) -> Call<'a, ()> {
        let reason = reason.into();
        if reason.len() > LONGEST_REASON || reason.chars().any(char::is_control) {
            return self.refused(format!("give a reason of at most {LONGEST_REASON} bytes on one line"));
        }
        self.settle(Verdict::Term(reason))
    }

    /// Says that work on it goes on: its ack wait begins anew.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn in_progress(&self) -> Call<'a, ()> {
        let (cursor, ticket) = (self.cursor, self.ticket.clone());
        Call::new(async move { settle(cursor, ticket, Verdict::InProgress).await })
    }

    fn settle(self, verdict: Verdict) -> Call<'a, ()> {
        let Self { cursor, ticket, .. } = self;
        Call::new(async move { settle(cursor, ticket, verdict).await })
    }

    fn refused(self, detail: String) -> Call<'a, ()> {
        let error = self.cursor.durable.error(ErrorKind::Invalid, Operation::Settle).detail(detail);
        Call::new(async move { Err(error) })
    }
}

async fn settle<T: StreamSpec, B: Backend>(
    cursor: &Cursor<T, B>,
    ticket: Ticket,
    verdict: Verdict,
) -> Result<(), Error> {
    cursor.durable.stream.operate(Operation::Settle, cursor.handle.settle(ticket, verdict)).await
}

impl<T: StreamSpec, B: Backend> InFlight<'_, T, B> {
    /// Returns the delivery.
    #[must_use]
    pub fn delivery(&self) -> &Delivery<T> {
        &self.delivery
    }
}

impl<T: StreamSpec, B: Backend> Deref for InFlight<'_, T, B> {
    type Target = Delivery<T>;

    fn deref(&self) -> &Delivery<T> {
        &self.delivery
    }
}

impl<T: StreamSpec, B: Backend> fmt::Debug for InFlight<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.delivery).finish()
    }
}
