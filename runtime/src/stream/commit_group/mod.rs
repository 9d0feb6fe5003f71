//! Commit groups: members that share a stream's partitions and commit a position in each.

mod member;

use std::fmt;
use std::sync::Arc;

use super::bound::{BoundGroup, Discipline};
use super::{Lag, MemberSettings, Positions, Start, Stream, StreamSettings};
use crate::call::Call;
use crate::capability::{Backend, CommitGroups};
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};

pub use member::{Member, MemberTail};

/// A commit group of a stream: what [`Stream::commit_group`] returns.
///
/// Each partition belongs to one member of the group at a time, and a committed position acknowledges everything up to it
/// on its partition. So the order of a key holds across members, and one record that can't be handled holds up what comes
/// after it on its partition.
pub struct CommitGroup<T: StreamSpec, B: Backend> {
    pub(crate) stream: Stream<T, B>,
    pub(crate) bound: Arc<BoundGroup>,
}

impl<T: StreamSpec, B: CommitGroups> CommitGroup<T, B> {
    pub(super) fn new(stream: &Stream<T, B>, name: &str) -> Result<Self, Error> {
        Ok(Self { stream: stream.clone(), bound: stream.group(Discipline::Commit, name)? })
    }

    /// Creates the group's stream: the stream's own [`ensure`](Stream::ensure).
    ///
    /// # Errors
    ///
    /// See there.
    pub fn ensure_topic(&self, settings: StreamSettings) -> Call<'_, ()> {
        self.stream.ensure(settings)
    }

    /// Records where the group begins, where the stream exists, and says whether it did. A group that is there stays where
    /// it is, and only a partition of which nothing is recorded gets a position.
    ///
    /// What is recorded holds from now on: with [`Start::Latest`] everything that is appended after this call is read,
    /// also when no member has joined before.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    /// With an unknown outcome call it again: it is idempotent.
    pub fn ensure(&self, start: impl Into<Start>) -> Call<'_, bool> {
        let (stream, start) = (&self.stream, start.into());
        Call::new(async move {
            let ensuring = B::ensure_commit_group(stream.client(), &self.bound.address, &start);
            let recorded = stream.operate(Operation::Ensure, ensuring).await?;
            self.bound.remember(Some(start));
            Ok(recorded)
        })
    }

    /// Removes the group with its positions, and says whether it was there.
    ///
    /// # Errors
    ///
    /// `Conflict` while it has members; otherwise as [`ensure`](Self::ensure).
    pub fn delete(&self) -> Call<'_, bool> {
        let stream = &self.stream;
        Call::new(async move {
            self.bound.remember(None);
            stream.operate(Operation::Delete, B::delete_commit_group(stream.client(), &self.bound.address)).await
        })
    }

    /// Joins the group as a member.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there or nothing is recorded for the group: [`ensure`](Self::ensure) does that.
    /// `Invalid` for settings out of their bounds, `Conflict` where the backend sees at once that the name is another
    /// member's; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, nobody has joined.
    pub fn join(&self, settings: MemberSettings) -> Call<'_, Member<T, B>> {
        let stream = &self.stream;
        Call::new(async move {
            let problems = settings.problems();
            if !problems.is_empty() {
                return Err(self.error(ErrorKind::Invalid, Operation::Consume).detail(problems.join("; ")));
            }
            let joining = B::join(stream.client(), &self.bound.address, &settings);
            Ok(Member::new(self, stream.operate(Operation::Consume, joining).await?))
        })
    }

    /// Returns what is committed. A partition of which nothing is acknowledged has no position.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    pub fn committed(&self) -> Call<'_, Positions> {
        let stream = &self.stream;
        Call::new(async move {
            stream.operate(Operation::Inspect, B::committed(stream.client(), &self.bound.address)).await
        })
    }

    /// Moves a group without members, in every partition, and returns what is committed then. A position beyond what is
    /// there is clamped.
    ///
    /// The group reads on strictly after a position: after the position of a stream's sixth record the seventh comes.
    ///
    /// # Errors
    ///
    /// `Conflict` while the group has members; otherwise as [`join`](Self::join). With an unknown outcome call it again.
    pub fn reset_offsets(&self, to: impl Into<Start>) -> Call<'_, Positions> {
        let (stream, to) = (&self.stream, to.into());
        Call::new(async move {
            let moving = B::reset_offsets(stream.client(), &self.bound.address, &to);
            stream.operate(Operation::Reset, moving).await
        })
    }

    /// Counts what isn't acknowledged, for each partition.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    pub fn lag(&self) -> Call<'_, Vec<Lag>> {
        let stream = &self.stream;
        Call::new(async move { stream.operate(Operation::Inspect, B::lag(stream.client(), &self.bound.address)).await })
    }
}

impl<T: StreamSpec, B: Backend> CommitGroup<T, B> {
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
}

impl<T: StreamSpec, B: Backend> Clone for CommitGroup<T, B> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone(), bound: self.bound.clone() }
    }
}

impl<T: StreamSpec, B: Backend> fmt::Debug for CommitGroup<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitGroup").field("stream", &self.stream).field("name", &self.name()).finish_non_exhaustive()
    }
}
