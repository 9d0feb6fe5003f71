//! Groups that commit a position for each partition, and the members that share them.

use std::future::Future;
use std::time::Duration;

use super::{BackendError, GroupAddress, Log, Stored};
use crate::stream::{Lag, MemberSettings, Position, Positions, Start};

/// Consumer groups that commit a position for each partition.
///
/// A committed position acknowledges everything up to it on its partition. A partition of which nothing is acknowledged
/// has none in [`Positions`], which isn't the same as a group that isn't there.
///
/// 1. [`ensure_commit_group`](Self::ensure_commit_group) records where the group begins, in every partition of the stream, and says
///    whether it did; what is committed already stays. It is the only operation that makes a group: every other one on a
///    group of which nothing is recorded is `Absent`. None of them creates a stream.
/// 2. [`join`](Self::join) adds a member. Each partition belongs to one member at a time, all of them to somebody as long
///    as there is one, spread evenly; a change moves no more partitions than it has to.
/// 3. [`committed`](Self::committed) answers what is recorded now, also for a group without members.
/// 4. [`reset_offsets`](Self::reset_offsets) records another position in every partition, clamped to what is there, and
///    returns it. It is refused with `Conflict` while the group has members.
/// 5. [`lag`](Self::lag) counts for each partition the records after the committed position, never less than 0. Where
///    nothing is left to be read it is 0, whatever was committed.
/// 6. A partition that was added since, so that nothing is recorded for it, begins at its first record.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no commit groups",
    label = "this backend can't commit a position for each partition",
    note = "commit groups need `CommitGroups`: use `backend::Memory` or `backend::Kafka`, or an ack group (`requires(ack_groups)`) or a durable (`requires(cursors)`) where the backend has one",
    note = "in generic code add the bound `B: tidings::capability::CommitGroups`"
)]
pub trait CommitGroups: Log {
    /// One member of a group.
    type Member: GroupMember;

    /// Records where the group begins.
    fn ensure_commit_group(
        client: &Self::Client,
        group: &GroupAddress,
        start: &Start,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Removes the group, and says whether it was there. It is refused with `Conflict` while it has members.
    fn delete_commit_group(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Joins the group. It returns when the group has been found and the member is on its way in: what it is assigned is
    /// told by [`GroupMember::next`].
    fn join(
        client: &Self::Client,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> impl Future<Output = Result<Self::Member, BackendError>> + Send;

    /// Returns what is committed.
    fn committed(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send;

    /// Moves a group without members.
    fn reset_offsets(
        client: &Self::Client,
        group: &GroupAddress,
        to: &Start,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send;

    /// Counts what isn't acknowledged, for each partition in order.
    fn lag(client: &Self::Client, group: &GroupAddress) -> impl Future<Output = Result<Vec<Lag>, BackendError>> + Send;
}

/// A member of a commit group, from [`CommitGroups::join`].
///
/// 1. [`next`](Self::next) tells one thing at a time, in the order in which it happened, and waits up to `wait` for it; no
///    records after that is no error. Dropped midway it loses nothing. One call runs at a time.
/// 2. [`Fetched::Assigned`] comes before the first record of its partitions. Reading them begins after the committed
///    position, and goes on in each partition's order, none twice and none left out. Offsets without a record (of
///    compacted records, of a transaction's markers) are no loss.
/// 3. [`Fetched::Revoking`] comes before a partition moves to another member. From then on it gives no records; the member
///    may commit what it has handled, and has [`MemberSettings::hand_over`] for it. Once it
///    [hands over](Self::hand_over), or the time is up, the partition is gone, which [`Fetched::Revoked`] tells. Where it
///    was lost at once (the member was thought dead), `Revoked` comes alone.
/// 4. [`commit`](Self::commit) returns when it is recorded. A position at or before what is committed changes nothing.
///    Partitions that aren't this member's, or no longer, are left as they are and returned.
/// 5. The next owner begins after what was committed before the partition moved on.
/// 6. [`Fetched::Trimmed`] tells of records that were removed before they could be read, before the first that is left.
/// 7. [`rewind`](Self::rewind) makes the assigned partitions give their records again, from after what is committed.
///    Nothing that was read before it comes after it.
/// 8. A [paused](Self::pause) partition gives no records, and stays the member's.
/// 9. The membership needs no call of the member: it lasts however long a record is handled. What is read ahead is
///    bounded.
/// 10. [`leave`](Self::leave) hands everything over at once and returns when the group knows. Dropped without, the member
///     leaves too, behind. Neither commits anything.
/// 11. Errors that end the membership are `Revoked`, for one whose place was taken by another of its name, `Absent`, where
///     group or stream are gone, and `Closed`; after them every call gives the same. After others `next` goes on.
/// 12. [`joined`](Self::joined) returns once the group has answered since the call: the member has been told what it is
///     assigned, or has nothing for now. It waits for that as long as the group can be reached, and fails where it can't.
pub trait GroupMember: Send + Sync + 'static {
    /// Waits for what comes next: at most `max` records of any of the partitions, or what became of a partition.
    fn next(&self, max: usize, wait: Duration) -> impl Future<Output = Result<Fetched, BackendError>> + Send;

    /// Waits until the member is in the group and the group has answered. It runs beside [`next`](Self::next).
    fn joined(&self) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Commits, and returns the partitions that aren't this member's.
    fn commit(&self, positions: &Positions) -> impl Future<Output = Result<Vec<u32>, BackendError>> + Send;

    /// Gives up partitions that are being revoked. Others are left as they are.
    fn hand_over(&self, partitions: &[u32]);

    /// Goes back to what is committed.
    fn rewind(&self) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Stops giving records of these partitions, or goes on. For one that is assigned anew it is forgotten.
    fn pause(&self, partitions: &[u32], paused: bool);

    /// Returns the partitions that are the member's, in order, those that are being revoked among them.
    fn assigned(&self) -> Vec<u32>;

    /// Names the member among those of its client, for [`Transactions`](super::Transactions).
    fn id(&self) -> u64;

    /// Leaves the group.
    fn leave(self) -> impl Future<Output = ()> + Send;
}

/// What a member is told.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// Records, which may be none.
    Records(Vec<Stored>),
    /// These partitions are the member's now.
    Assigned(Vec<u32>),
    /// These partitions are to be handed over.
    Revoking(Vec<u32>),
    /// These partitions aren't the member's any longer: they are another's, or the membership was lost.
    Revoked(Vec<u32>),
    /// Records of a partition are gone that weren't read.
    Trimmed {
        /// After which reading would have gone on.
        after: Option<Position>,
        /// The first that is left, or where the next one comes.
        first: Position,
    },
}
