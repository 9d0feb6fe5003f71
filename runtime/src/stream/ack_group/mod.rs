//! Ack groups: consumers that share a stream and settle entry by entry.

mod consumer;
mod tail;

use std::fmt;
use std::sync::Arc;

use super::bound::{BoundGroup, Discipline};
use super::{Depth, PendingEntry, Position, Start, Stream};
use crate::address::check_connection_name;
use crate::call::Call;
use crate::capability::{AckGroups, Backend};
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};

pub use consumer::{Claimed, Consumer};

/// Why a consumer isn't removed.
pub(crate) const PENDING_WITHOUT_HEIR: &str = "entries are pending for the consumer; name an heir, or acknowledge them";
pub(crate) const TRIMMED_WHILE_PENDING: &str =
    "entries that are pending for the consumer were trimmed away; its history tells which, and it can be removed then";
pub use tail::Tail;

/// An ack group of a stream: what [`Stream::ack_group`] returns.
///
/// Each entry goes to one consumer of the group and stays pending until it is acknowledged. The entries of one key may
/// go to several consumers, so their order across consumers isn't kept; a [worker](Self::worker) keeps it within
/// itself.
pub struct AckGroup<T: StreamSpec, B: Backend> {
    pub(crate) stream: Stream<T, B>,
    pub(crate) bound: Arc<BoundGroup>,
}

impl<T: StreamSpec, B: AckGroups> AckGroup<T, B> {
    pub(super) fn new(stream: &Stream<T, B>, name: &str) -> Result<Self, Error> {
        Ok(Self { stream: stream.clone(), bound: stream.group(Discipline::Ack, name)? })
    }

    /// Creates the group where the stream exists, and says whether it did. It begins at the end where the start is beyond
    /// that. A group that is there stays where it is.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    /// With an unknown outcome call it again: it is idempotent, also when many do it at once.
    pub fn ensure(&self, start: impl Into<Start>) -> Call<'_, bool> {
        let start = start.into();
        Call::new(async move {
            let created = self.ensure_at(&start, Operation::Ensure).await?;
            self.bound.remember(Some(start));
            Ok(created)
        })
    }

    pub(crate) async fn ensure_at(&self, start: &Start, operation: Operation) -> Result<bool, Error> {
        let stream = &self.stream;
        stream.operate(operation, B::ensure_group(stream.client(), &self.bound.address, start)).await
    }

    /// Removes the group with what is pending in it, and says whether it was there.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there; otherwise as [`ensure`](Self::ensure).
    pub fn delete(&self) -> Call<'_, bool> {
        let stream = &self.stream;
        Call::new(async move {
            self.bound.remember(None);
            stream.operate(Operation::Delete, B::delete_group(stream.client(), &self.bound.address)).await
        })
    }

    /// Makes a consumer. It does no I/O. A name stands for one consumer at a time: one that starts again under its name
    /// finds what it had pending in its [history](Consumer::history).
    ///
    /// # Errors
    ///
    /// `Invalid` for a name outside `[a-z0-9][a-z0-9_-]{0,126}`.
    pub fn consumer(&self, name: &str) -> Result<Consumer<T, B>, Error> {
        Consumer::new(self, name)
    }

    /// Acknowledges deliveries, which may be another consumer's, and returns how many of them were pending.
    ///
    /// # Errors
    ///
    /// See [`Consumer::ack`].
    pub fn ack(&self, positions: impl IntoIterator<Item = Position>) -> Call<'_, u64> {
        let mut positions: Vec<Position> = positions.into_iter().collect();
        Call::new(async move {
            let stream = &self.stream;
            if positions.len() > 1 {
                positions.sort_unstable_by_key(|position| (position.partition(), position.offset()));
                positions.dedup();
            }
            if positions.is_empty() {
                return Ok(0);
            }
            let most = stream.broker.limits().batch_messages;
            if positions.len() > most {
                let detail = format!("{} positions; `batch_messages` is {most}, so settle in several", positions.len());
                return Err(self.error(ErrorKind::Invalid, Operation::Settle).detail(detail));
            }
            stream.operate(Operation::Settle, B::ack(stream.client(), &self.bound.address, &positions)).await
        })
    }

    /// Lists at most `max` pending entries of all consumers after a position, in the order of partition and offset: the
    /// oldest of each partition first. Go on after the last of a page.
    ///
    /// # Errors
    ///
    /// `Absent`, `Invalid` (`max` outside 1 to `read_records`), `Timeout`, `Unavailable`, `Refused`, `Forbidden`,
    /// `Overloaded`, `Closed`.
    pub fn pending(&self, after: Option<Position>, max: usize) -> Call<'_, Vec<PendingEntry>> {
        let stream = &self.stream;
        Call::new(async move {
            stream.within_page(max, Operation::Inspect)?;
            let listing = B::pending(stream.client(), &self.bound.address, after, max);
            stream.operate(Operation::Inspect, listing).await
        })
    }

    /// Counts what the group has pending and what it hasn't read.
    ///
    /// # Errors
    ///
    /// As [`pending`](Self::pending).
    pub fn depth(&self) -> Call<'_, Depth> {
        let stream = &self.stream;
        Call::new(
            async move { stream.operate(Operation::Inspect, B::depth(stream.client(), &self.bound.address)).await },
        )
    }

    /// Removes records that every group of the stream has acknowledged, and returns how many.
    ///
    /// # Errors
    ///
    /// As [`pending`](Self::pending).
    pub fn trim_acknowledged(&self) -> Call<'_, u64> {
        let stream = &self.stream;
        Call::new(async move {
            stream.operate(Operation::Trim, B::trim_acknowledged(stream.client(), &stream.bound.address)).await
        })
    }

    /// Removes a consumer, after its pending entries were handed to the heir, and returns how many those were.
    ///
    /// # Errors
    ///
    /// `Conflict` where something is pending for the consumer and there is no heir, or where any of it was trimmed away:
    /// the consumer's [`history`](super::Consumer::history) tells that, after which it can be removed. `Invalid` for a bad
    /// name or a consumer that is its own heir; otherwise as [`pending`](Self::pending).
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, any of the entries may be the heir's, and the consumer may be removed; it can be called
    /// again.
    pub fn remove_consumer(&self, name: &str, heir: Option<&str>) -> Call<'_, u64> {
        let stream = &self.stream;
        let checked = [Some(name), heir].into_iter().flatten().try_for_each(|name| self.check_consumer(name));
        let (name, heir) = (name.to_owned(), heir.map(ToOwned::to_owned));
        Call::new(async move {
            checked?;
            if heir.as_deref() == Some(&name) {
                let detail = "a consumer can't be its own heir; name another";
                return Err(self.error(ErrorKind::Invalid, Operation::Delete).detail(detail));
            }
            let removing = B::remove_consumer(stream.client(), &self.bound.address, &name, heir.as_deref());
            stream.operate(Operation::Delete, removing).await
        })
    }
}

impl<T: StreamSpec, B: Backend> AckGroup<T, B> {
    /// Returns the group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bound.address.name()
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Stream<T, B> {
        &self.stream
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation) -> Error {
        self.stream.error(kind, operation)
    }

    pub(crate) fn check_consumer(&self, name: &str) -> Result<(), Error> {
        check_connection_name("consumer", name)
            .map_err(|wrong| self.error(ErrorKind::Invalid, Operation::Bind).detail(wrong.to_string()))
    }
}

impl<T: StreamSpec, B: Backend> Clone for AckGroup<T, B> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone(), bound: self.bound.clone() }
    }
}

impl<T: StreamSpec, B: Backend> fmt::Debug for AckGroup<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AckGroup").field("stream", &self.stream).field("name", &self.name()).finish_non_exhaustive()
    }
}
