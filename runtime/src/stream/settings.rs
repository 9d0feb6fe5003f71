use std::fmt;
use std::time::{Duration, SystemTime};

use super::{Position, Positions};

/// What a stream is made with. The settings are the stream's own, kept by the backend: every process that appends or
/// reads follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamSettings {
    /// Partitions, 1 to 1,024. Default 1. A key's records stay in one, in order; Redis Cluster spreads them over its
    /// nodes. A stream of JetStream has one, and more are refused.
    pub partitions: u32,
    /// Copies of the stream, where the backend keeps several by itself. Default: the backend's. Memory and Redis have no
    /// such setting and refuse one.
    pub replicas: Option<u32>,
    /// Where the records are. Default: the backend's. Memory has memory alone and Kafka files alone, and each refuses the
    /// other; Redis refuses both, since it keeps a stream as it keeps everything.
    pub storage: Option<Storage>,
    /// Records that a partition keeps, the newest; at least 1. Default: all. Redis trims whole nodes of its tree, which
    /// hold 100 records by default, so up to so many more may stay (`XADD MAXLEN ~`).
    pub max_len: Option<u64>,
    /// How long a partition keeps a record, 1 s to 10 years. Default: for ever. Old records go when others come, and on
    /// Redis by whole nodes too (`MINID ~`).
    pub max_age: Option<Duration>,
    /// How long an append with a caller's id is remembered. Default 2 min, 1 s to 7 days.
    pub dedup_window: Duration,
}

const YEAR: Duration = Duration::from_hours(24 * 365);

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            partitions: 1,
            replicas: None,
            storage: None,
            max_len: None,
            max_age: None,
            dedup_window: Duration::from_mins(2),
        }
    }
}

impl StreamSettings {
    /// Starts with one partition that keeps everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets the number of copies.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets where the records are.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Sets how many records a partition keeps.
    #[must_use]
    pub fn max_len(mut self, max_len: u64) -> Self {
        self.max_len = Some(max_len);
        self
    }

    /// Sets how long a partition keeps a record.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Sets how long an append with a caller's id is remembered.
    #[must_use]
    pub fn dedup_window(mut self, window: Duration) -> Self {
        self.dedup_window = window;
        self
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let second = Duration::from_secs(1);
        let mut problems = Vec::new();
        if !(1..=1_024).contains(&self.partitions) {
            problems.push(format!("`partitions` is {}; give 1 to 1024", self.partitions));
        }
        if let Some(replicas) = self.replicas
            && !(1..=64).contains(&replicas)
        {
            problems.push(format!("`replicas` is {replicas}; give 1 to 64"));
        }
        if self.max_len == Some(0) {
            problems.push("`max_len` is 0; give at least 1, or leave it out to keep all".to_owned());
        }
        if let Some(age) = self.max_age
            && !(second..=YEAR * 10).contains(&age)
        {
            problems.push(format!("`max_age` is {age:?}; give 1 s to 10 years, or leave it out to keep all"));
        }
        if !(second..=Duration::from_hours(24 * 7)).contains(&self.dedup_window) {
            problems.push(format!("`dedup_window` is {:?}; give 1 s to 7 days", self.dedup_window));
        }
        problems
    }
}

/// Where a stream's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Storage {
    /// In files, which are there after the server's end.
    File,
    /// In its servers' memory, gone with the last of them.
    Memory,
}

/// When an append counts as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The server has it, as durably as it is set up. On Redis a crash may lose what its append-only file's
    /// `appendfsync` allows, a failover what wasn't replicated.
    #[default]
    Primary,
    /// So many replicas have it too, 1 to 64 (Redis: `WAIT`). Too few in time is a `Timeout` with the outcome `Unknown`.
    Replicas(u32),
    /// It is on the primary's disk (Redis 7.2 or later with an append-only file: `WAITAOF`). By Redis's default
    /// `appendfsync everysec` an append that is awaited alone takes up to a second.
    Fsync,
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// At the first record that is there.
    Earliest,
    /// After the last record that is there when the call is made.
    Latest,
    /// At the first record appended at this time or later, by the server's clock; at the end where there is none yet.
    At(SystemTime),
    /// After these positions; a partition without one is read from its first record.
    After(Positions),
}

impl From<Positions> for Start {
    fn from(positions: Positions) -> Self {
        Self::After(positions)
    }
}

/// ```
/// # use tidings::{Position, Positions, Start};
/// let mut read = Positions::new();
/// read.advance(Position::new(0, 7));
/// assert_eq!(Start::from(&read), Start::After(read));
/// ```
impl From<&Positions> for Start {
    fn from(positions: &Positions) -> Self {
        Self::After(positions.clone())
    }
}

/// In a stream of several partitions the others are read from their first record: keep [`Positions`] there.
impl From<Position> for Start {
    fn from(position: Position) -> Self {
        Self::After(position.into())
    }
}

/// What an append answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Receipt {
    /// Where the record stands; `None` where the broker's confirmation carries no position.
    pub position: Option<Position>,
    /// Whether a record with this id was there already, at that position, and nothing was stored.
    pub duplicate: bool,
}

impl Receipt {
    /// Makes a receipt, as a backend does.
    #[must_use]
    pub const fn new(position: Option<Position>, duplicate: bool) -> Self {
        Self { position, duplicate }
    }
}

/// An entry that was delivered and isn't acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingEntry {
    /// Where it stands.
    pub position: Position,
    /// Who has it.
    pub consumer: String,
    /// How long since it was delivered or kept from being claimed. One that was given back counts as idle for as long as
    /// the backend can say, which is years.
    pub idle: Duration,
    /// How often it was delivered.
    pub attempt: u32,
}

impl PendingEntry {
    /// Makes an entry, as a backend does.
    #[must_use]
    pub const fn new(position: Position, consumer: String, idle: Duration, attempt: u32) -> Self {
        Self { position, consumer, idle, attempt }
    }
}

/// How much a group has before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// Entries that the group hasn't read. `None` where the backend can't tell, which isn't zero: Redis can't after
    /// entries were deleted from the middle, or for a group that started at a position of its own.
    pub unread: Option<u64>,
}

impl Depth {
    /// Makes a depth, as a backend does.
    #[must_use]
    pub const fn new(pending: u64, unread: Option<u64>) -> Self {
        Self { pending, unread }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unread {
            Some(unread) => write!(f, "{} pending, {unread} unread", self.pending),
            None => write!(f, "{} pending, unread unknown", self.pending),
        }
    }
}

/// How much of a partition a commit group hasn't acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The partition.
    pub partition: u32,
    /// Up to where everything is acknowledged; `None` before the first record.
    pub committed: Option<Position>,
    /// Records after that. On Kafka these are offsets, some of which may have no record.
    pub records: u64,
}

impl Lag {
    /// Makes a lag, as a backend does.
    #[must_use]
    pub const fn new(partition: u32, committed: Option<Position>, records: u64) -> Self {
        Self { partition, committed, records }
    }
}

/// How a member takes part in a commit group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberSettings {
    /// The member's name, `[a-z0-9][a-z0-9_-]{0,126}`, under which it gets its partitions back after a restart. Default:
    /// none, and a member that leaves has its partitions spread over the others at once. A name stands for one member at
    /// a time.
    pub name: Option<String>,
    /// How long a partition that is to move waits for what is under way, 0 to 5 min. Default 10 s.
    pub hand_over: Duration,
}

impl Default for MemberSettings {
    fn default() -> Self {
        Self { name: None, hand_over: Duration::from_secs(10) }
    }
}

impl MemberSettings {
    /// Starts without a name, and with 10 s to hand over.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the member's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how long a partition that is to move waits for what is under way.
    #[must_use]
    pub fn hand_over(mut self, hand_over: Duration) -> Self {
        self.hand_over = hand_over;
        self
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(name) = &self.name
            && let Err(wrong) = crate::address::check_connection_name("member", name)
        {
            problems.push(wrong.to_string());
        }
        if self.hand_over > Duration::from_mins(5) {
            problems.push(format!("`hand_over` is {:?}; give at most 5 min", self.hand_over));
        }
        problems
    }
}
