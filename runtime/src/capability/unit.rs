//! Units: appends and settlements that are recorded whole or not at all.

use std::future::Future;
use std::sync::Arc;

use super::{BackendError, GroupAddress, Log, Record, StreamAddress};
use crate::stream::{Position, Positions, Receipt};

/// A unit of appends and settlements that is recorded whole or not at all.
///
/// 1. [`record`](Self::record) returns when all of the unit is recorded, with a receipt for each append in order. It fails
///    as a whole: with `NotApplied` nothing of it is there; with `Unknown` all of it is, or nothing, and the group's
///    committed position tells which. Readers may see it a moment later.
/// 2. A reader never sees a part of a unit, and none of one that failed.
/// 3. A unit's commit is held to the sentences of [`CommitGroups`](super::CommitGroups): where one of its partitions isn't the member's any
///    longer, the unit fails with `Revoked`, and nothing is recorded.
/// 4. The unit of a client that was replaced by another of the same identity fails with `Fenced`, and nothing of it is
///    recorded. The client's next unit takes the identity back.
/// 5. A settlement that the backend's groups don't have is refused with `Unsupported`, before anything is sent.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no transactions",
    label = "this backend can't record appends and settlements as one unit",
    note = "units need `Transactions`: use `backend::Memory` or `backend::Kafka`, or append with a caller's id (`requires(dedup)`), so that a repeated append is stored once",
    note = "in generic code add the bound `B: tidings::capability::Transactions`"
)]
pub trait Transactions: Log {
    /// Records the unit.
    fn record(client: &Self::Client, unit: Unit) -> impl Future<Output = Result<Vec<Receipt>, BackendError>> + Send;
}

/// What is recorded together.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Unit {
    /// Records, each with the stream that it is appended to.
    pub appends: Vec<(Arc<StreamAddress>, Record)>,
    /// What it settles.
    pub settlements: Vec<Settlement>,
}

/// What a unit settles.
#[derive(Debug)]
#[non_exhaustive]
pub enum Settlement {
    /// Positions that a member of a commit group commits.
    Commit {
        /// The group.
        group: Arc<GroupAddress>,
        /// The member, by its [`GroupMember::id`](super::GroupMember::id).
        member: u64,
        /// The positions.
        positions: Positions,
    },
    /// Entries of an ack group that are acknowledged.
    Ack {
        /// The group.
        group: Arc<GroupAddress>,
        /// The entries, which are distinct.
        positions: Vec<Position>,
    },
}
