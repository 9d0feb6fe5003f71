//! The capabilities of streams: a log, and the ways to consume it.

use std::future::Future;
use std::time::Duration;

use super::{Backend, BackendError, GroupAddress, Record, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Depth, Durability, PendingEntry, Position, Positions, Receipt, Start, StreamSettings};

/// An ordered, replayable log in one or more partitions.
///
/// 1. [`ensure`](Self::ensure) creates the stream, does nothing where it exists with the same settings, and fails with
///    `Conflict` where it exists with others. Settings that the system can't honour are `Unsupported`. Nothing else
///    creates a stream: every other operation on one that isn't there is `Absent`.
/// 2. The number of partitions is the stream's own, read from the system. A key's partition is
///    [`partition_of`](super::partition_of) where the client chooses it; records without a key go round robin.
/// 3. [`append`](Self::append) returns when the record is recorded as durably as asked, with its position. Positions of
///    one partition rise. Its error says whether the record may be there, and comes within
///    [`Limits::timeout`](crate::Limits::timeout).
/// 4. [`append_all`](Self::append_all) keeps the order within a partition and answers for each record, in that order.
/// 5. A record is sent at most once. Where the backend is [`Dedup`], one whose `once` is set is stored once.
/// 6. [`read`](Self::read) returns records strictly after the positions, in each partition's order, none twice and none
///    left out; a partition without a position is read from its first record. It waits up to `wait` for the first
///    record and never for more; an empty answer after that is no error.
/// 7. Where records after a position were removed before they could be read, it answers [`Read::Trimmed`] and nothing
///    else.
/// 8. What is in a record comes back as it was appended, also when it isn't this library's: attributes that are absent
///    or unreadable are `None`, the payload is whatever bytes are there.
/// 9. A read that waits holds up no other operation, and is dropped without a trace.
/// 10. [`update`](Self::update) changes the settings of a stream that is there, which keeps its records as far as they fit. A
///     change that the system can't make is `Conflict`.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no streams",
    label = "this backend keeps no log",
    note = "streams need `Log`: use `backend::Memory`, `backend::Redis`, `backend::RedisCluster`, `backend::Kafka` or `backend::Nats` for them",
    note = "in generic code add the bound `B: tidings::capability::Log`"
)]
pub trait Log: Backend {
    /// Refuses, without I/O, an address or a durability that the system can't have, with the remedy.
    fn admits(client: &Self::Client, stream: &StreamAddress, durability: Durability) -> Result<(), String>;

    /// Creates the stream.
    fn ensure(
        client: &Self::Client,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Changes the stream's settings. A backend that can't is left at `Unsupported`.
    fn update(
        client: &Self::Client,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send {
        let _ = (client, stream, settings);
        let text = "the backend changes no stream that is there; change it with the system's own tools and `ensure` it with \
                    its new settings, or delete it";
        std::future::ready(Err(BackendError::new(ErrorKind::Unsupported, Outcome::NotApplied).with_source(text)))
    }

    /// Removes the stream with its records and groups, and says whether it was there.
    fn delete(client: &Self::Client, stream: &StreamAddress)
    -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Appends one record.
    fn append(
        client: &Self::Client,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> impl Future<Output = Result<Receipt, BackendError>> + Send;

    /// Appends several records and answers for each.
    fn append_all(
        client: &Self::Client,
        stream: &StreamAddress,
        records: Vec<Record>,
        durability: Durability,
    ) -> impl Future<Output = Vec<Result<Receipt, BackendError>>> + Send;

    /// Resolves a start, once, to the positions after which reading begins. A partition without one begins at its first
    /// record. [`Start::After`] is itself, without I/O.
    fn start(
        client: &Self::Client,
        stream: &StreamAddress,
        start: &Start,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send;

    /// Reads at most `max` records after the positions.
    fn read(
        client: &Self::Client,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Read, BackendError>> + Send;
}

/// What a read found.
#[derive(Clone, Debug)]
pub enum Read {
    /// The records, which may be none.
    Records(Vec<Stored>),
    /// Records after a position, or that a group hasn't had, are gone.
    Trimmed {
        /// The first position left of that partition.
        first: Position,
        /// Whether something was removed unread for sure, or only may have been.
        certain: bool,
    },
}

/// A record as it stands in a stream.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Where it stands.
    pub position: Position,
    /// How often a group has delivered it, this time included. 1 for a plain read.
    pub attempt: u32,
    /// What it holds.
    pub record: Record,
}

/// Entries that a consumer took over or has pending.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// The entries.
    pub records: Vec<Stored>,
    /// Those that were removed from the stream while they were pending. They are pending no longer.
    pub lost: Vec<Position>,
}

impl Taken {
    /// Says whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.lost.is_empty()
    }
}

/// Consumer groups that settle entry by entry.
///
/// 1. [`ensure_group`](Self::ensure_group) creates the group, where the stream exists, and says whether it did. A start
///    beyond the end is the end. A group that is there already stays where it is. Every other operation on a missing
///    group or stream is `Absent`.
/// 2. [`read_new`](Self::read_new) hands each entry to one consumer of the group, and keeps it pending until it is
///    acknowledged. Other groups and plain reads are unaffected. It waits as [`Log::read`] does. Where entries were
///    removed before the group had them, it answers [`Read::Trimmed`], once, and goes on with the next call. Dropped
///    midway, what it was being handed stays pending, and is given back by [`release`](Self::release) where the system
///    still answers.
/// 3. [`history`](Self::history) redelivers a consumer's own pending entries after a position, in order, and counts it.
/// 4. [`ack`](Self::ack) returns when recorded, with the number of positions that were pending.
/// 5. [`claim`](Self::claim) moves entries that have been idle at least so long to the consumer, the oldest first, counts
///    the redelivery and starts their clock anew. Repeated, it gets to all of them.
/// 6. [`extend`](Self::extend) starts the clock anew of those of the positions that are pending for the consumer, and of
///    no other, and returns them. It counts no redelivery.
/// 7. [`release`](Self::release) makes those that are pending for the consumer claimable at once, and takes back the
///    count of their last delivery.
/// 8. [`settled`](Self::settled) returns for each partition the highest position up to which everything is
///    acknowledged; none where nothing is.
/// 9. [`remove_consumer`](Self::remove_consumer) hands what is pending for a consumer to its heir and then removes it;
///    without an heir it is refused with `Conflict` while something is pending, and with one while any of that was trimmed
///    away, which only a history or a claim tells.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no ack groups",
    label = "this backend can't acknowledge entry by entry",
    note = "ack groups need `AckGroups`: use `backend::Memory`, `backend::Redis` or `backend::RedisCluster`, or a commit group (`requires(commit_groups)`) or a durable (`requires(cursors)`) where the backend has one",
    note = "in generic code add the bound `B: tidings::capability::AckGroups`"
)]
pub trait AckGroups: Log {
    /// Creates the group.
    fn ensure_group(
        client: &Self::Client,
        group: &GroupAddress,
        start: &Start,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Removes the group, and says whether it was there.
    fn delete_group(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Reads at most `max` entries that no consumer of the group has had.
    fn read_new(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Read, BackendError>> + Send;

    /// Reads at most `max` of the consumer's own pending entries, after a position in the order of partition and offset.
    fn history(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send;

    /// Acknowledges entries, which are distinct.
    fn ack(
        client: &Self::Client,
        group: &GroupAddress,
        positions: &[Position],
    ) -> impl Future<Output = Result<u64, BackendError>> + Send;

    /// Takes over at most `max` entries that have been idle so long.
    fn claim(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        idle: Duration,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send;

    /// Keeps pending entries from being claimed for another idle time.
    fn extend(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<Vec<Position>, BackendError>> + Send;

    /// Gives pending entries back, for any consumer to claim.
    fn release(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Lists at most `max` pending entries after a position, in the order of partition and offset.
    fn pending(
        client: &Self::Client,
        group: &GroupAddress,
        after: Option<Position>,
        max: usize,
    ) -> impl Future<Output = Result<Vec<PendingEntry>, BackendError>> + Send;

    /// Counts what the group has pending and what it hasn't read.
    fn depth(client: &Self::Client, group: &GroupAddress) -> impl Future<Output = Result<Depth, BackendError>> + Send;

    /// Returns up to where everything is acknowledged.
    fn settled(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send;

    /// Removes records that every group of the stream has acknowledged, and returns how many. Without a group it
    /// removes none.
    fn trim_acknowledged(
        client: &Self::Client,
        stream: &StreamAddress,
    ) -> impl Future<Output = Result<u64, BackendError>> + Send;

    /// Removes a consumer, and returns how many entries its heir has got.
    fn remove_consumer(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        heir: Option<&str>,
    ) -> impl Future<Output = Result<u64, BackendError>> + Send;
}

/// A record with a caller's id is stored once within a window.
///
/// 1. An append of a record whose `once` is set, with an id that was stored within the window, stores nothing and returns
///    the original position as a duplicate. A duplicate doesn't extend the window.
/// 2. Ids are per stream; on Redis Cluster per partition, so that the same id under another key may be stored again.
/// 3. The window is the stream's own: [`StreamSettings::dedup_window`].
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` can't store an append once by its id",
    label = "this backend has no deduplication of appends",
    note = "`requires(dedup)` needs `Dedup`: use `backend::Memory`, `backend::Redis`, `backend::RedisCluster` or `backend::Nats`, or an inbox where the stream is consumed",
    note = "in generic code add the bound `B: tidings::capability::Dedup`"
)]
pub trait Dedup: Log {
    /// Returns the window that the stream has now.
    fn window(
        client: &Self::Client,
        stream: &StreamAddress,
    ) -> impl Future<Output = Result<Duration, BackendError>> + Send;
}

/// Records without a payload, which remove what stands under their key where the log is compacted.
///
/// 1. A record whose [`tombstone`](Record::tombstone) is set is stored without a payload, which isn't an empty one, and
///    comes back so.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no tombstones",
    label = "this backend can't store a record without a payload",
    note = "tombstones need `Tombstones`: use `backend::Kafka`, or elsewhere append an entry that says that the key is gone",
    note = "in generic code add the bound `B: tidings::capability::Tombstones`"
)]
pub trait Tombstones: Log {}

macro_rules! declared {
    ($(#[$doc:meta])* $name:ident: $super:path, $message:literal, $label:literal, $need:literal, $bound:literal) => {
        $(#[$doc])*
        ///
        /// Its operations come with the first backend that has it; until then it can be required and nothing more.
        #[diagnostic::on_unimplemented(message = $message, label = $label, note = $need, note = $bound)]
        pub trait $name: $super {}
    };
}

declared! {
    /// Marks of handled messages in the same unit.
    InboxMarks: super::Transactions,
    "the backend `{Self}` keeps no inbox marks",
    "this backend can't mark a message as handled within a transaction",
    "keep the marks in the handler's own database transaction",
    "in generic code add the bound `B: tidings::capability::InboxMarks`"
}
