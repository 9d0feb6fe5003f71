//! What a backend can do: one trait for each capability, speaking bytes.
//!
//! Implement [`Backend`] and the capabilities that a system really has; what it lacks then doesn't compile for its
//! users. Each trait's docs are a contract of numbered sentences, and the conformance suite (feature `conformance`)
//! holds an implementation to them.

mod commit;
mod cursor;
mod stream;
mod unit;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use crate::broker::Host;
use crate::error::{BoxError, ErrorKind, Outcome};
pub use crate::stream::{GroupAddress, Origin, Record, StreamAddress, partition_of};
pub use crate::topic::{Feed, FeedEnded};
pub use commit::{CommitGroups, Fetched, GroupMember};
pub use cursor::{BoundDurable, Cursors, Pulled, Ticket, Verdict};
pub use stream::{AckGroups, Dedup, InboxMarks, Log, Read, Stored, Taken, Tombstones};
pub use unit::{Settlement, Transactions, Unit};

/// An adapter to one messaging system: its settings, shared by the brokers that use the same value.
///
/// 1. [`client`](Self::client) does no I/O and spawns nothing; connections are opened by the first operation.
/// 2. A client serves one broker. What it spawns goes through [`Host::spawn`], so that close can wait for it.
/// 3. A client never reconnects a subscription, retries an operation or drops a message in silence.
pub trait Backend: Send + Sync + 'static {
    /// The connections and subscriptions of one broker.
    type Client: Send + Sync + 'static;

    /// Returns the system's name as OpenTelemetry has it (`messaging.system`), such as `redis`.
    fn system(&self) -> &'static str;

    /// Makes a client for one broker.
    ///
    /// # Errors
    ///
    /// A text for every setting that the backend can't honour, all at once.
    fn client(&self, host: Host) -> Result<Self::Client, Vec<String>>;

    /// Connects, reads what the server allows, and reports what the bound declarations can't have.
    ///
    /// 4. Nothing is changed on the server. What the server doesn't let the client read is no problem; it is
    ///    reported as unchecked.
    fn check(client: &Self::Client, wanted: Wanted) -> impl Future<Output = Result<Checked, BackendError>> + Send;

    /// Returns which of these capabilities the system behind the client lacks.
    ///
    /// A backend's type says by its traits what it has, so that it lacks nothing that compiles. Only one that is
    /// chosen at run time, as [`AnyBackend`](crate::backend::AnyBackend) is, has something to answer.
    fn lacking(_client: &Self::Client, _wanted: &[Capability]) -> Vec<Capability> {
        Vec::new()
    }

    /// Closes the client's connections and fails what still waits on them.
    ///
    /// 5. It returns when they are closed, without waiting for a peer's answer, and can be called again.
    fn close(client: &Self::Client) -> impl Future<Output = ()> + Send;
}

/// Ephemeral fan-out: what is published on a channel reaches those who are subscribed at that moment.
///
/// 1. [`publish`](Self::publish) hands the message to the system at most once. Its error says whether the message may
///    have gone out, and comes within [`Limits::timeout`](crate::Limits::timeout).
/// 2. [`publish_all`](Self::publish_all) keeps the order and answers for each message, in that order.
/// 3. When [`subscribe`](Self::subscribe) returns, the system has confirmed every channel.
/// 4. Each message of a channel is pushed into the feed once, in the system's order, with the channel that it came on.
///    Messages of other channels are not.
/// 5. When that can't go on, the feed is ended with a cause. A feed that answers [`FeedEnded`] is let go.
/// 6. A set-up that is dropped before it returns leaves nothing behind and harms no other.
/// 7. A client's subscriptions share one connection, opened with the first and closed with the last.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` has no topics",
    label = "this backend can't publish and subscribe",
    note = "topics need `PubSub`: use `backend::Memory`, `backend::Redis`, `backend::RedisCluster` or `backend::Nats` for them",
    note = "in generic code add the bound `B: tidings::capability::PubSub`"
)]
pub trait PubSub: Backend {
    /// Holds a subscription open; dropping it unsubscribes behind.
    type Subscription: Unsubscribe;

    /// Publishes one message and returns the system's count of those who heard it, where it has one.
    fn publish(
        client: &Self::Client,
        message: Outgoing,
    ) -> impl Future<Output = Result<Option<u64>, BackendError>> + Send;

    /// Publishes several messages in order and answers for each.
    fn publish_all(
        client: &Self::Client,
        messages: Vec<Outgoing>,
    ) -> impl Future<Output = Vec<Result<Option<u64>, BackendError>>> + Send;

    /// Subscribes the feed to every one of the channels, which are distinct and at least one.
    fn subscribe(
        client: &Self::Client,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> impl Future<Output = Result<Self::Subscription, BackendError>> + Send;
}

/// Subscriptions to all channels below an address, known or not.
///
/// 1. A message is pushed when its channel is `{prefix}.` and at least one segment more, with that channel.
/// 2. A subscription to a channel and one to a prefix that covers it each get their own copy.
/// 3. Otherwise sentences 3 to 7 of [`PubSub`] hold.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` can't subscribe to every key or to a key prefix",
    label = "this backend has no pattern subscriptions",
    note = "`subscribe_all`, `subscribe_under` and their supervised forms need `PatternPubSub`: use `backend::Memory`, `backend::Redis` or `backend::Nats`, or name the keys with `subscribe_keys` or `supervise_keys`",
    note = "in generic code add the bound `B: tidings::capability::PatternPubSub`"
)]
pub trait PatternPubSub: PubSub {
    /// Subscribes the feed to every channel below the prefix, which ends without a dot.
    fn subscribe_under(
        client: &Self::Client,
        prefix: Arc<str>,
        feed: Feed,
    ) -> impl Future<Output = Result<Self::Subscription, BackendError>> + Send;
}

/// Holds one subscription open on a backend.
pub trait Unsubscribe: Send + 'static {
    /// Unsubscribes, and returns when the system has confirmed it or the connection is gone.
    ///
    /// Dropped midway, it still unsubscribes behind.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The name of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// [`PubSub`].
    PubSub,
    /// [`PatternPubSub`].
    PatternPubSub,
    /// [`Log`].
    Log,
    /// [`AckGroups`].
    AckGroups,
    /// [`CommitGroups`].
    CommitGroups,
    /// [`Cursors`].
    Cursors,
    /// [`Transactions`].
    Transactions,
    /// [`Tombstones`].
    Tombstones,
    /// [`InboxMarks`].
    InboxMarks,
    /// [`Dedup`].
    Dedup,
}

impl Capability {
    /// Returns the trait's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PubSub => "PubSub",
            Self::PatternPubSub => "PatternPubSub",
            Self::Log => "Log",
            Self::AckGroups => "AckGroups",
            Self::CommitGroups => "CommitGroups",
            Self::Cursors => "Cursors",
            Self::Transactions => "Transactions",
            Self::Tombstones => "Tombstones",
            Self::InboxMarks => "InboxMarks",
            Self::Dedup => "Dedup",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The channel's address.
    pub channel: String,
    /// The encoded payload.
    pub payload: Bytes,
}

/// What the bound declarations need of a server.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Wanted {
    /// The addresses of the bound topics, without keys.
    pub topics: Vec<Arc<str>>,
    /// The bound streams.
    pub streams: Vec<Arc<StreamAddress>>,
    /// How long who asks waits, where it is told. A backend that gives up a little sooner can say why.
    pub patience: Option<Duration>,
}

/// What a server said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The server's product and version, such as `redis 8.0.2`.
    pub server: String,
    /// What the bound declarations can't have there, each with the remedy.
    pub problems: Vec<String>,
    /// What couldn't be looked at, each with the remedy, such as ``the version; grant `+info` ``. Without problems, the
    /// declarations have all that they need only where this is empty too.
    pub unchecked: Vec<String>,
}

impl Checked {
    /// Makes a report of a server that has everything.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), problems: Vec::new(), unchecked: Vec::new() }
    }
}

/// A backend's failure, before the typed layer adds operation and declaration.
#[derive(Debug)]
pub struct BackendError {
    /// What kind of thing went wrong.
    pub kind: ErrorKind,
    /// Whether the operation may have happened.
    pub outcome: Outcome,
    /// The client library's own error, if there is one. It must hold no payload, key or credential.
    pub source: Option<BoxError>,
}

impl BackendError {
    /// Makes an error without a source.
    #[must_use]
    pub const fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        Self { kind, outcome, source: None }
    }

    /// Adds the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }
}
