//! A backend that is chosen at run time. It is the only place that can answer "unsupported", and may name every backend.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "kafka")]
use super::Kafka;
use super::Memory;
#[cfg(feature = "nats")]
use super::Nats;
#[cfg(feature = "redis")]
use super::{Redis, RedisCluster};
use crate::capability::{
    AckGroups, Backend, BackendError, BoundDurable, Capability, Checked, CommitGroups, Cursors, Dedup, Feed, Fetched,
    GroupAddress, GroupMember, Host, InboxMarks, Log, Outgoing, PatternPubSub, PubSub, Pulled, Read, Record,
    StreamAddress, Taken, Ticket, Tombstones, Transactions, Unit, Unsubscribe, Verdict, Wanted,
};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{
    Depth, Durability, DurableInfo, DurableSettings, Lag, MemberSettings, PendingEntry, Position, Positions, Receipt,
    Start, StreamSettings,
};

/// A backend that is chosen at run time, by a URL.
///
/// It compiles with every declaration and every call, and checks when a declaration is bound what the backend behind it
/// really has: binding a stream fails with `Unsupported` and the name of everything that is missing. A use that the
/// declaration doesn't require fails in the same way where it is called.
///
/// A backend that needs more than a URL, a certificate say, is built by its own type and converted.
///
/// ```
/// # use tidings::{Broker, Config, Namespace, backend::{AnyBackend, Memory}};
/// let backend = AnyBackend::new("memory:")?;
/// let broker = Broker::new(backend, Config::new(Namespace::new("shop", "prod")?))?;
/// let same_with_a_value_of_your_own = AnyBackend::from(Memory::new());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AnyBackend(Any<Memory, RedisOr, ClusterOr, KafkaOr, NatsOr>);

/// One broker's use of an [`AnyBackend`].
pub struct AnyClient(Clients);

/// Holds a subscription of an [`AnyBackend`].
pub struct AnySubscription(Subscriptions);

/// A member of a commit group of an [`AnyBackend`].
pub struct AnyMember(Any<Member<Memory>, Infallible, Infallible, Member<KafkaOr>, Infallible>);

/// A handle to a durable of an [`AnyBackend`].
pub struct AnyDurable(Any<Handle<Memory>, Infallible, Infallible, Infallible, Handle<NatsOr>>);

type Clients = Any<Client<Memory>, Client<RedisOr>, Client<ClusterOr>, Client<KafkaOr>, Client<NatsOr>>;
type Subscriptions =
    Any<Subscription<Memory>, Subscription<RedisOr>, Subscription<ClusterOr>, Infallible, Subscription<NatsOr>>;
type Client<B> = <B as Backend>::Client;
type Subscription<B> = <B as PubSub>::Subscription;
type Member<B> = <B as CommitGroups>::Member;
type Handle<B> = <B as Cursors>::Durable;

#[cfg(feature = "redis")]
type RedisOr = Redis;
#[cfg(feature = "redis")]
type ClusterOr = RedisCluster;
#[cfg(feature = "kafka")]
type KafkaOr = Kafka;
#[cfg(feature = "nats")]
type NatsOr = Nats;
// Without the feature nothing makes these variants.
#[cfg(not(feature = "redis"))]
type RedisOr = Memory;
#[cfg(not(feature = "redis"))]
type ClusterOr = Memory;
#[cfg(not(feature = "kafka"))]
type KafkaOr = Memory;
#[cfg(not(feature = "nats"))]
type NatsOr = Memory;

/// One of the backends, or something of it.
#[derive(Clone, Debug)]
#[cfg_attr(not(all(feature = "redis", feature = "kafka", feature = "nats")), allow(dead_code))]
enum Any<M, R, C, K, N> {
    Memory(M),
    Redis(R),
    Cluster(C),
    Kafka(K),
    Nats(N),
}

/// Does the same with whichever it is.
macro_rules! on {
    ($any:expr, $backend:ident, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => {
                #[allow(dead_code)]
                type $backend = Memory;
                $do
            }
            Any::Redis($inner) => {
                #[allow(dead_code)]
                type $backend = RedisOr;
                $do
            }
            Any::Cluster($inner) => {
                #[allow(dead_code)]
                type $backend = ClusterOr;
                $do
            }
            Any::Kafka($inner) => {
                #[allow(dead_code)]
                type $backend = KafkaOr;
                $do
            }
            Any::Nats($inner) => {
                #[allow(dead_code)]
                type $backend = NatsOr;
                $do
            }
        }
    };
}

/// Does the same with whichever it is, where it has this capability, which Kafka hasn't.
macro_rules! on_but_kafka {
    ($any:expr, $capability:ident, $backend:ident, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => {
                type $backend = Memory;
                $do
            }
            Any::Redis($inner) => {
                type $backend = RedisOr;
                $do
            }
            Any::Cluster($inner) => {
                type $backend = ClusterOr;
                $do
            }
            Any::Nats($inner) => {
                type $backend = NatsOr;
                $do
            }
            Any::Kafka(_) => Err(unsupported(Capability::$capability)),
        }
    };
}

/// Does the same with whichever it is, where it has this capability, which Kafka and NATS haven't.
macro_rules! on_with_ack_groups {
    ($any:expr, $capability:ident, $backend:ident, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => {
                type $backend = Memory;
                $do
            }
            Any::Redis($inner) => {
                type $backend = RedisOr;
                $do
            }
            Any::Cluster($inner) => {
                type $backend = ClusterOr;
                $do
            }
            Any::Kafka(_) | Any::Nats(_) => Err(unsupported(Capability::$capability)),
        }
    };
}

/// Does the same with whichever it is, where it has this capability, which Redis and NATS haven't.
macro_rules! on_but_redis {
    ($any:expr, $capability:ident, $backend:ident, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => {
                type $backend = Memory;
                $do
            }
            Any::Kafka($inner) => {
                type $backend = KafkaOr;
                $do
            }
            Any::Redis(_) | Any::Cluster(_) | Any::Nats(_) => Err(unsupported(Capability::$capability)),
        }
    };
}

/// Wraps what came of it in the same variant.
macro_rules! same {
    ($any:expr, $backend:ident, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => {
                type $backend = Memory;
                Any::Memory($do)
            }
            Any::Redis($inner) => {
                type $backend = RedisOr;
                Any::Redis($do)
            }
            Any::Cluster($inner) => {
                type $backend = ClusterOr;
                Any::Cluster($do)
            }
            Any::Kafka($inner) => {
                type $backend = KafkaOr;
                Any::Kafka($do)
            }
            Any::Nats($inner) => {
                type $backend = NatsOr;
                Any::Nats($do)
            }
        }
    };
}

impl AnyBackend {
    /// Takes a URL, whose scheme chooses the backend.
    ///
    /// | scheme | backend |
    /// |---|---|
    /// | `memory:` | a [`Memory`] of its own |
    /// | `redis:`, `rediss:`, `valkey:`, `valkeys:`, `unix:`, `redis+unix:`, `valkey+unix:` | `Redis` (feature `redis`) |
    /// | `redis+cluster:`, `rediss+cluster:` | `RedisCluster` (feature `redis`); several nodes are joined by commas |
    /// | `kafka:`, `kafka+ssl:`, `kafkas:` | `Kafka` (feature `kafka`); several hosts are joined by commas |
    /// | `nats:`, `tls:` | `Nats` (feature `nats`); several hosts are joined by commas |
    ///
    /// # Errors
    ///
    /// `Invalid` for a scheme that it doesn't know or whose feature is off, and with what is wrong in the URL. The text
    /// holds no user and no password.
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let url = url.as_ref();
        let invalid = |problem: String| Error::new(ErrorKind::Invalid, Operation::Build).detail(problem);
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(invalid("the URL has no scheme; write `memory:` or `redis://host`, say".to_owned()));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Memory::new().into()),
            "memory" => Err(invalid("`memory:` takes nothing more; leave the rest out".to_owned())),
            "redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix" | "valkey+unix" => redis(url),
            "redis+cluster" | "rediss+cluster" => cluster(scheme, rest),
            "kafka" | "kafka+ssl" | "kafkas" => kafka(url),
            "nats" | "tls" => nats(url),
            _ => {
                let scheme: String = scheme.chars().take(32).collect();
                Err(invalid(format!(
                    "no backend has the scheme `{scheme}`; write `memory:`, `redis:`, `redis+cluster:`, `kafka:` \
                     or `nats:`"
                )))
            }
        }
    }

    /// Says whether the backend has a capability.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        has(&self.0, capability)
    }
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<AnyBackend, Error> {
    Redis::new(url).map(Into::into)
}

#[cfg(feature = "redis")]
fn cluster(scheme: &str, rest: &str) -> Result<AnyBackend, Error> {
    let scheme = scheme.trim_end_matches("+cluster");
    // The user and password before the first node are those of all.
    let (user, nodes) = match rest.trim_start_matches("//").rsplit_once('@') {
        Some((user, nodes)) => (format!("{user}@"), nodes),
        None => (String::new(), rest.trim_start_matches("//")),
    };
    RedisCluster::new(nodes.split(',').map(|node| format!("{scheme}://{user}{node}"))).map(Into::into)
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> Result<AnyBackend, Error> {
    let problem = "Redis was left out when this was compiled; add the feature `redis` of `tidings`";
    Err(Error::new(ErrorKind::Invalid, Operation::Build).detail(problem))
}

#[cfg(not(feature = "redis"))]
fn cluster(_: &str, _: &str) -> Result<AnyBackend, Error> {
    redis("")
}

#[cfg(feature = "kafka")]
fn kafka(url: &str) -> Result<AnyBackend, Error> {
    Kafka::new(url).map(Into::into)
}

#[cfg(not(feature = "kafka"))]
fn kafka(_: &str) -> Result<AnyBackend, Error> {
    let problem = "Kafka was left out when this was compiled; add the feature `kafka` of `tidings`";
    Err(Error::new(ErrorKind::Invalid, Operation::Build).detail(problem))
}

#[cfg(feature = "nats")]
fn nats(url: &str) -> Result<AnyBackend, Error> {
    Nats::new(url).map(Into::into)
}

#[cfg(not(feature = "nats"))]
fn nats(_: &str) -> Result<AnyBackend, Error> {
    let problem = "NATS was left out when this was compiled; add the feature `nats` of `tidings`";
    Err(Error::new(ErrorKind::Invalid, Operation::Build).detail(problem))
}

/// What the types say by their traits. The tests compare.
fn has<M, R, C, K, N>(any: &Any<M, R, C, K, N>, capability: Capability) -> bool {
    match capability {
        Capability::Log => true,
        Capability::PubSub | Capability::Dedup => !matches!(any, Any::Kafka(_)),
        Capability::AckGroups => !matches!(any, Any::Kafka(_) | Any::Nats(_)),
        Capability::PatternPubSub => matches!(any, Any::Memory(_) | Any::Redis(_) | Any::Nats(_)),
        Capability::CommitGroups | Capability::Transactions => matches!(any, Any::Memory(_) | Any::Kafka(_)),
        Capability::Cursors => matches!(any, Any::Memory(_) | Any::Nats(_)),
        Capability::Tombstones => matches!(any, Any::Kafka(_)),
        Capability::InboxMarks => false,
    }
}

impl From<Memory> for AnyBackend {
    fn from(backend: Memory) -> Self {
        Self(Any::Memory(backend))
    }
}

#[cfg(feature = "redis")]
impl From<Redis> for AnyBackend {
    fn from(backend: Redis) -> Self {
        Self(Any::Redis(backend))
    }
}

#[cfg(feature = "redis")]
impl From<RedisCluster> for AnyBackend {
    fn from(backend: RedisCluster) -> Self {
        Self(Any::Cluster(backend))
    }
}

#[cfg(feature = "kafka")]
impl From<Kafka> for AnyBackend {
    fn from(backend: Kafka) -> Self {
        Self(Any::Kafka(backend))
    }
}

#[cfg(feature = "nats")]
impl From<Nats> for AnyBackend {
    fn from(backend: Nats) -> Self {
        Self(Any::Nats(backend))
    }
}

/// Shows where the server is, but no user, password or key.
impl fmt::Debug for AnyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on!(&self.0, It, inner => f.debug_tuple("AnyBackend").field(inner).finish())
    }
}

impl fmt::Debug for AnyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyClient").finish_non_exhaustive()
    }
}

impl fmt::Debug for AnySubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnySubscription").finish_non_exhaustive()
    }
}

impl fmt::Debug for AnyMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyMember").finish_non_exhaustive()
    }
}

fn unsupported(capability: Capability) -> BackendError {
    BackendError::new(ErrorKind::Unsupported, Outcome::NotApplied)
        .with_source(format!("the backend has no `{capability}`; choose one that has"))
}

impl Backend for AnyBackend {
    type Client = AnyClient;

    fn system(&self) -> &'static str {
        on!(&self.0, It, inner => inner.system())
    }

    fn client(&self, host: Host) -> Result<AnyClient, Vec<String>> {
        Ok(AnyClient(same!(&self.0, It, inner => It::client(inner, host)?)))
    }

    async fn check(client: &AnyClient, wanted: Wanted) -> Result<Checked, BackendError> {
        on!(&client.0, It, inner => It::check(inner, wanted).await)
    }

    fn lacking(client: &AnyClient, wanted: &[Capability]) -> Vec<Capability> {
        wanted.iter().copied().filter(|capability| !has(&client.0, *capability)).collect()
    }

    async fn close(client: &AnyClient) {
        on!(&client.0, It, inner => It::close(inner).await);
    }
}

impl Unsubscribe for AnySubscription {
    async fn close(self) {
        on!(self.0, It, inner => inner.close().await);
    }
}

/// What there is none of.
impl Unsubscribe for Infallible {
    async fn close(self) {
        match self {}
    }
}

impl PubSub for AnyBackend {
    type Subscription = AnySubscription;

    async fn publish(client: &AnyClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        on_but_kafka!(&client.0, PubSub, It, inner => It::publish(inner, message).await)
    }

    async fn publish_all(client: &AnyClient, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        match &client.0 {
            Any::Memory(inner) => Memory::publish_all(inner, messages).await,
            Any::Redis(inner) => RedisOr::publish_all(inner, messages).await,
            Any::Cluster(inner) => ClusterOr::publish_all(inner, messages).await,
            Any::Nats(inner) => NatsOr::publish_all(inner, messages).await,
            Any::Kafka(_) => messages.iter().map(|_| Err(unsupported(Capability::PubSub))).collect(),
        }
    }

    async fn subscribe(
        client: &AnyClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<AnySubscription, BackendError> {
        Ok(AnySubscription(match &client.0 {
            Any::Memory(inner) => Any::Memory(Memory::subscribe(inner, channels, feed).await?),
            Any::Redis(inner) => Any::Redis(RedisOr::subscribe(inner, channels, feed).await?),
            Any::Cluster(inner) => Any::Cluster(ClusterOr::subscribe(inner, channels, feed).await?),
            Any::Nats(inner) => Any::Nats(NatsOr::subscribe(inner, channels, feed).await?),
            Any::Kafka(_) => return Err(unsupported(Capability::PubSub)),
        }))
    }
}

impl PatternPubSub for AnyBackend {
    async fn subscribe_under(
        client: &AnyClient,
        prefix: Arc<str>,
        feed: Feed,
    ) -> Result<AnySubscription, BackendError> {
        let held = match &client.0 {
            Any::Memory(inner) => Any::Memory(Memory::subscribe_under(inner, prefix, feed).await?),
            Any::Redis(inner) => Any::Redis(RedisOr::subscribe_under(inner, prefix, feed).await?),
            Any::Nats(inner) => Any::Nats(NatsOr::subscribe_under(inner, prefix, feed).await?),
            Any::Cluster(_) | Any::Kafka(_) => return Err(unsupported(Capability::PatternPubSub)),
        };
        Ok(AnySubscription(held))
    }
}

macro_rules! delegated {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(
            async fn $name(client: &AnyClient, $($argument: $type),*) -> $answer {
                on!(&client.0, It, inner => It::$name(inner, $($argument),*).await)
            }
        )+
    };
}

macro_rules! delegated_but_by_kafka {
    ($capability:ident: $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(
            async fn $name(client: &AnyClient, $($argument: $type),*) -> Result<$answer, BackendError> {
                on_but_kafka!(&client.0, $capability, It, inner => It::$name(inner, $($argument),*).await)
            }
        )+
    };
}

macro_rules! delegated_with_ack_groups {
    ($capability:ident: $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(
            async fn $name(client: &AnyClient, $($argument: $type),*) -> Result<$answer, BackendError> {
                on_with_ack_groups!(&client.0, $capability, It, inner => It::$name(inner, $($argument),*).await)
            }
        )+
    };
}

macro_rules! delegated_but_by_redis {
    ($capability:ident: $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(
            async fn $name(client: &AnyClient, $($argument: $type),*) -> Result<$answer, BackendError> {
                on_but_redis!(&client.0, $capability, It, inner => It::$name(inner, $($argument),*).await)
            }
        )+
    };
}

macro_rules! delegated_to_cursors {
    ($capability:ident: $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(
            async fn $name(client: &AnyClient, $($argument: $type),*) -> Result<$answer, BackendError> {
                match &client.0 {
                    Any::Memory(inner) => Memory::$name(inner, $($argument),*).await,
                    Any::Nats(inner) => NatsOr::$name(inner, $($argument),*).await,
                    _ => Err(unsupported(Capability::$capability)),
                }
            }
        )+
    };
}

impl Log for AnyBackend {
    fn admits(client: &AnyClient, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        on!(&client.0, It, inner => It::admits(inner, stream, durability))
    }

    async fn append(
        client: &AnyClient,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> Result<Receipt, BackendError> {
        if record.tombstone && !matches!(client.0, Any::Kafka(_)) {
            return Err(unsupported(Capability::Tombstones));
        }
        on!(&client.0, It, inner => It::append(inner, stream, record, durability).await)
    }

    delegated! {
        ensure(stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError>;
        update(stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError>;
        delete(stream: &StreamAddress) -> Result<bool, BackendError>;
        append_all(
            stream: &StreamAddress,
            records: Vec<Record>,
            durability: Durability
        ) -> Vec<Result<Receipt, BackendError>>;
        start(stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError>;
        read(stream: &StreamAddress, after: &Positions, max: usize, wait: Duration) -> Result<Read, BackendError>;
    }
}

impl Dedup for AnyBackend {
    delegated_but_by_kafka! {
        Dedup:
        window(stream: &StreamAddress) -> Duration;
    }
}

impl AckGroups for AnyBackend {
    delegated_with_ack_groups! {
        AckGroups:
        ensure_group(group: &GroupAddress, start: &Start) -> bool;
        delete_group(group: &GroupAddress) -> bool;
        read_new(
            group: &GroupAddress,
            consumer: &str,
            max: usize,
            wait: Duration
        ) -> Read;
        history(
            group: &GroupAddress,
            consumer: &str,
            after: Option<Position>,
            max: usize
        ) -> Taken;
        ack(group: &GroupAddress, positions: &[Position]) -> u64;
        claim(group: &GroupAddress, consumer: &str, idle: Duration, max: usize) -> Taken;
        extend(
            group: &GroupAddress,
            consumer: &str,
            positions: &[Position]
        ) -> Vec<Position>;
        release(group: &GroupAddress, consumer: &str, positions: &[Position]) -> ();
        pending(
            group: &GroupAddress,
            after: Option<Position>,
            max: usize
        ) -> Vec<PendingEntry>;
        depth(group: &GroupAddress) -> Depth;
        settled(group: &GroupAddress) -> Positions;
        trim_acknowledged(stream: &StreamAddress) -> u64;
        remove_consumer(group: &GroupAddress, consumer: &str, heir: Option<&str>) -> u64;
    }
}

impl CommitGroups for AnyBackend {
    type Member = AnyMember;

    async fn join(
        client: &AnyClient,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> Result<AnyMember, BackendError> {
        Ok(AnyMember(match &client.0 {
            Any::Memory(inner) => Any::Memory(Memory::join(inner, group, settings).await?),
            Any::Kafka(inner) => Any::Kafka(KafkaOr::join(inner, group, settings).await?),
            Any::Redis(_) | Any::Cluster(_) | Any::Nats(_) => return Err(unsupported(Capability::CommitGroups)),
        }))
    }

    delegated_but_by_redis! {
        CommitGroups:
        ensure_commit_group(group: &GroupAddress, start: &Start) -> bool;
        delete_commit_group(group: &GroupAddress) -> bool;
        committed(group: &GroupAddress) -> Positions;
        reset_offsets(group: &GroupAddress, to: &Start) -> Positions;
        lag(group: &GroupAddress) -> Vec<Lag>;
    }
}

/// Does the same with whichever member it is.
macro_rules! of_member {
    ($any:expr, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => $do,
            Any::Kafka($inner) => $do,
            Any::Redis(none) | Any::Cluster(none) | Any::Nats(none) => match *none {},
        }
    };
}

impl GroupMember for AnyMember {
    async fn next(&self, max: usize, wait: Duration) -> Result<Fetched, BackendError> {
        of_member!(&self.0, inner => inner.next(max, wait).await)
    }

    async fn joined(&self) -> Result<(), BackendError> {
        of_member!(&self.0, inner => inner.joined().await)
    }

    async fn commit(&self, positions: &Positions) -> Result<Vec<u32>, BackendError> {
        of_member!(&self.0, inner => inner.commit(positions).await)
    }

    fn hand_over(&self, partitions: &[u32]) {
        of_member!(&self.0, inner => inner.hand_over(partitions));
    }

    async fn rewind(&self) -> Result<(), BackendError> {
        of_member!(&self.0, inner => inner.rewind().await)
    }

    fn pause(&self, partitions: &[u32], paused: bool) {
        of_member!(&self.0, inner => inner.pause(partitions, paused));
    }

    fn assigned(&self) -> Vec<u32> {
        of_member!(&self.0, inner => inner.assigned())
    }

    fn id(&self) -> u64 {
        of_member!(&self.0, inner => inner.id())
    }

    // Without the feature the two are of one type.
    #[cfg_attr(not(feature = "kafka"), allow(clippy::match_same_arms))]
    async fn leave(self) {
        match self.0 {
            Any::Memory(inner) => inner.leave().await,
            Any::Kafka(inner) => inner.leave().await,
            Any::Redis(none) | Any::Cluster(none) | Any::Nats(none) => match none {},
        }
    }
}

impl Transactions for AnyBackend {
    delegated_but_by_redis! {
        Transactions:
        record(unit: Unit) -> Vec<Receipt>;
    }
}

impl Tombstones for AnyBackend {}

impl Cursors for AnyBackend {
    type Durable = AnyDurable;

    async fn bind_durable(client: &AnyClient, durable: &GroupAddress) -> Result<AnyDurable, BackendError> {
        Ok(AnyDurable(match &client.0 {
            Any::Memory(inner) => Any::Memory(Memory::bind_durable(inner, durable).await?),
            Any::Nats(inner) => Any::Nats(NatsOr::bind_durable(inner, durable).await?),
            _ => return Err(unsupported(Capability::Cursors)),
        }))
    }

    delegated_to_cursors! {
        Cursors:
        ensure_durable(durable: &GroupAddress, settings: &DurableSettings) -> bool;
        update_durable(durable: &GroupAddress, settings: &DurableSettings) -> ();
        delete_durable(durable: &GroupAddress) -> bool;
        inspect_durable(durable: &GroupAddress) -> DurableInfo;
    }
}

/// Does the same with whichever handle it is.
macro_rules! of_handle {
    ($any:expr, $inner:ident => $do:expr) => {
        match $any {
            Any::Memory($inner) => $do,
            Any::Nats($inner) => $do,
            Any::Redis(none) | Any::Cluster(none) | Any::Kafka(none) => match *none {},
        }
    };
}

impl BoundDurable for AnyDurable {
    async fn pull(&self, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        of_handle!(&self.0, inner => inner.pull(max, wait).await)
    }

    async fn settle(&self, settlements: Vec<(Ticket, Verdict)>) -> Vec<Result<(), BackendError>> {
        of_handle!(&self.0, inner => inner.settle(settlements).await)
    }

    async fn release(&self) {
        of_handle!(&self.0, inner => inner.release().await);
    }
}

// It has no operations yet; what requires it is refused when it is bound.
impl InboxMarks for AnyBackend {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Broker, Config, Namespace, stream_spec, topic};

    #[stream_spec(name = "any.units", version = 1, requires(ack_groups, inbox_marks, transactions), crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Unit;

    #[stream_spec(name = "any.compacted", version = 1, key = u64, requires(tombstones), crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Compacted;

    #[stream_spec(name = "any.plain", version = 1, crate = crate)]
    #[topic(name = "any.plain", version = 1, crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Plain;

    #[cfg(feature = "redis")]
    #[topic(name = "any.keyed", version = 1, key = u32, crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Keyed;

    fn broker(url: &str) -> Broker<AnyBackend> {
        let namespace = Namespace::new("any", "test").unwrap();
        Broker::new(AnyBackend::new(url).unwrap(), Config::new(namespace)).unwrap()
    }

    #[test]
    fn what_a_declaration_requires_is_checked_when_it_is_bound() {
        let broker = broker("memory:");
        let refused = Unit::stream(&broker).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let text = refused.to_string();
        for word in ["memory", "any.units.v1", "`InboxMarks`"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!text.contains("AckGroups") && !text.contains("Transactions"), "{text}");
        assert!(Plain::stream(&broker).is_ok());
        assert!(Plain::topic(&broker).is_ok());
        assert!(Plain::stream(&broker).unwrap().ack_group("crew").is_ok());
    }

    #[test]
    fn a_url_that_names_no_backend_is_refused_with_the_remedy() {
        for (url, word) in [
            ("", "scheme"),
            ("memory", "scheme"),
            ("memory://x", "nothing more"),
            ("kafka:x", "kafka"),
            ("amqp://x", "`amqp`"),
        ] {
            let refused = AnyBackend::new(url).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }

    #[cfg(feature = "kafka")]
    #[tokio::test]
    async fn kafka_has_groups_that_commit_and_no_topics() {
        let broker = broker("kafka://user:secret@one:1,two:2");
        assert_eq!(broker.inner.system, "kafka");
        let refused = Plain::topic(&broker).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("`PubSub`"), "{refused}");
        let stream = Plain::stream(&broker).unwrap();
        assert!(Compacted::stream(&broker).is_ok());
        assert!(stream.commit_group("crew").is_ok());
        assert_eq!(stream.ack_group("crew").unwrap_err().kind(), ErrorKind::Unsupported);
        let kafka = AnyBackend::new("kafka+ssl://user:secret@one:1,two:2").unwrap();
        let shown = format!("{kafka:?}");
        assert!(shown.contains("one") && shown.contains("two") && !shown.contains("secret"), "{shown}");
        for (capability, there) in [
            (Capability::Log, true),
            (Capability::CommitGroups, true),
            (Capability::Transactions, true),
            (Capability::Tombstones, true),
            (Capability::PubSub, false),
            (Capability::AckGroups, false),
            (Capability::Dedup, false),
        ] {
            assert_eq!(kafka.has(capability), there, "{capability}");
        }
    }

    #[cfg(feature = "nats")]
    #[tokio::test]
    async fn nats_has_topics_and_no_groups() {
        let broker = broker("nats://user:secret@one:1,two:2");
        assert_eq!(broker.inner.system, "nats");
        assert!(Plain::topic(&broker).is_ok());
        let stream = Plain::stream(&broker).unwrap();
        assert_eq!(stream.ack_group("crew").unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(stream.commit_group("crew").unwrap_err().kind(), ErrorKind::Unsupported);
        let nats = AnyBackend::new("tls://user:secret@one:1,two:2").unwrap();
        let shown = format!("{nats:?}");
        assert!(shown.contains("one") && shown.contains("two") && !shown.contains("secret"), "{shown}");
        for (capability, there) in [
            (Capability::Log, true),
            (Capability::PubSub, true),
            (Capability::PatternPubSub, true),
            (Capability::Dedup, true),
            (Capability::AckGroups, false),
            (Capability::CommitGroups, false),
            (Capability::Transactions, false),
            (Capability::Tombstones, false),
        ] {
            assert_eq!(nats.has(capability), there, "{capability}");
        }
    }

    #[tokio::test]
    async fn a_tombstone_is_refused_where_there_are_none() {
        let broker = broker("memory:");
        let refused = Compacted::stream(&broker).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        for word in ["memory", "any.compacted.v1", "`Tombstones`"] {
            assert!(refused.to_string().contains(word), "{refused}");
        }
        let stream = Plain::stream(&broker).unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        let refused = stream.append_tombstone(&()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("`Tombstones`"), "{refused}");
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_cluster_has_no_patterns_and_says_so_where_they_are_used() {
        let broker = broker("redis+cluster://user:secret@one:1,two:2");
        assert_eq!(broker.inner.system, "redis");
        let refused = Keyed::topic(&broker).unwrap().subscribe_all().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("`PatternPubSub`"), "{refused}");
        let shown = format!("{:?}", AnyBackend::new("redis+cluster://user:secret@one:1,two:2").unwrap());
        assert!(shown.contains("one") && shown.contains("two") && !shown.contains("secret"), "{shown}");
        assert!(AnyBackend::new("redis://h").unwrap().has(Capability::PatternPubSub));
        assert!(AnyBackend::new("redis+cluster://h,").is_err());
    }
}
