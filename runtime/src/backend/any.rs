//! A backend that is chosen at run time. It is the only place that can answer "unsupported", and may name every backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Memory;
use super::memory::MemoryMember;
#[cfg(feature = "redis")]
use super::{Redis, RedisCluster};
use crate::capability::{
    AckGroups, Backend, BackendError, Capability, Checked, CommitGroups, Cursors, Dedup, Feed, GroupAddress, Host,
    InboxMarks, Log, Outgoing, PatternPubSub, PubSub, Read, Record, Stored, StreamAddress, Taken, Transactions, Unit,
    Unsubscribe, Wanted,
};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{
    Depth, Durability, Lag, MemberSettings, PendingEntry, Position, Positions, Receipt, Start, StreamSettings,
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
pub struct AnyBackend(Any<Memory, RedisOr, ClusterOr>);

/// One broker's use of an [`AnyBackend`].
pub struct AnyClient(Any<Client<Memory>, Client<RedisOr>, Client<ClusterOr>>);

/// Holds a subscription of an [`AnyBackend`].
pub struct AnySubscription(Any<Subscription<Memory>, Subscription<RedisOr>, Subscription<ClusterOr>>);

type Client<B> = <B as Backend>::Client;
type Subscription<B> = <B as PubSub>::Subscription;

#[cfg(feature = "redis")]
type RedisOr = Redis;
#[cfg(feature = "redis")]
type ClusterOr = RedisCluster;
// Without the feature nothing makes these variants.
#[cfg(not(feature = "redis"))]
type RedisOr = Memory;
#[cfg(not(feature = "redis"))]
type ClusterOr = Memory;

/// One of the backends, or something of it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
enum Any<M, R, C> {
    Memory(M),
    Redis(R),
    Cluster(C),
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
            _ => {
                let scheme: String = scheme.chars().take(32).collect();
                Err(invalid(format!(
                    "no backend has the scheme `{scheme}`; write `memory:`, `redis:` or `redis+cluster:`"
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

/// What the types say by their traits. The tests compare.
fn has<M, R, C>(any: &Any<M, R, C>, capability: Capability) -> bool {
    match capability {
        Capability::PubSub | Capability::Log | Capability::AckGroups | Capability::Dedup => true,
        Capability::PatternPubSub => !matches!(any, Any::Cluster(_)),
        Capability::CommitGroups | Capability::Transactions => matches!(any, Any::Memory(_)),
        Capability::Cursors | Capability::InboxMarks => false,
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

impl PubSub for AnyBackend {
    type Subscription = AnySubscription;

    async fn publish(client: &AnyClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        on!(&client.0, It, inner => It::publish(inner, message).await)
    }

    async fn publish_all(client: &AnyClient, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        on!(&client.0, It, inner => It::publish_all(inner, messages).await)
    }

    async fn subscribe(
        client: &AnyClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<AnySubscription, BackendError> {
        Ok(AnySubscription(same!(&client.0, It, inner => It::subscribe(inner, channels, feed).await?)))
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
            Any::Cluster(_) => return Err(unsupported(Capability::PatternPubSub)),
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

impl Log for AnyBackend {
    fn admits(client: &AnyClient, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        on!(&client.0, It, inner => It::admits(inner, stream, durability))
    }

    delegated! {
        ensure(stream: &StreamAddress, settings: &StreamSettings) -> Result<(), BackendError>;
        delete(stream: &StreamAddress) -> Result<bool, BackendError>;
        append(stream: &StreamAddress, record: Record, durability: Durability) -> Result<Receipt, BackendError>;
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
    delegated! {
        window(stream: &StreamAddress) -> Result<Duration, BackendError>;
    }
}

impl AckGroups for AnyBackend {
    delegated! {
        ensure_group(group: &GroupAddress, start: &Start) -> Result<bool, BackendError>;
        delete_group(group: &GroupAddress) -> Result<bool, BackendError>;
        read_new(
            group: &GroupAddress,
            consumer: &str,
            max: usize,
            wait: Duration
        ) -> Result<Vec<Stored>, BackendError>;
        history(
            group: &GroupAddress,
            consumer: &str,
            after: Option<Position>,
            max: usize
        ) -> Result<Taken, BackendError>;
        ack(group: &GroupAddress, positions: &[Position]) -> Result<u64, BackendError>;
        claim(group: &GroupAddress, consumer: &str, idle: Duration, max: usize) -> Result<Taken, BackendError>;
        extend(
            group: &GroupAddress,
            consumer: &str,
            positions: &[Position]
        ) -> Result<Vec<Position>, BackendError>;
        release(group: &GroupAddress, consumer: &str, positions: &[Position]) -> Result<(), BackendError>;
        pending(
            group: &GroupAddress,
            after: Option<Position>,
            max: usize
        ) -> Result<Vec<PendingEntry>, BackendError>;
        depth(group: &GroupAddress) -> Result<Depth, BackendError>;
        settled(group: &GroupAddress) -> Result<Positions, BackendError>;
        trim_acknowledged(stream: &StreamAddress) -> Result<u64, BackendError>;
        remove_consumer(group: &GroupAddress, consumer: &str, heir: Option<&str>) -> Result<u64, BackendError>;
    }
}

impl CommitGroups for AnyBackend {
    type Member = MemoryMember;

    async fn ensure_commit_group(
        client: &AnyClient,
        group: &GroupAddress,
        start: &Start,
    ) -> Result<bool, BackendError> {
        Memory::ensure_commit_group(commits(client)?, group, start).await
    }

    async fn delete_commit_group(client: &AnyClient, group: &GroupAddress) -> Result<bool, BackendError> {
        Memory::delete_commit_group(commits(client)?, group).await
    }

    async fn join(
        client: &AnyClient,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> Result<MemoryMember, BackendError> {
        Memory::join(commits(client)?, group, settings).await
    }

    async fn committed(client: &AnyClient, group: &GroupAddress) -> Result<Positions, BackendError> {
        Memory::committed(commits(client)?, group).await
    }

    async fn reset_offsets(client: &AnyClient, group: &GroupAddress, to: &Start) -> Result<Positions, BackendError> {
        Memory::reset_offsets(commits(client)?, group, to).await
    }

    async fn lag(client: &AnyClient, group: &GroupAddress) -> Result<Vec<Lag>, BackendError> {
        Memory::lag(commits(client)?, group).await
    }
}

/// The one backend here that has commit groups.
fn commits(client: &AnyClient) -> Result<&Client<Memory>, BackendError> {
    match &client.0 {
        Any::Memory(inner) => Ok(inner),
        _ => Err(unsupported(Capability::CommitGroups)),
    }
}

impl Transactions for AnyBackend {
    async fn record(client: &AnyClient, unit: Unit) -> Result<Vec<Receipt>, BackendError> {
        match &client.0 {
            Any::Memory(inner) => Memory::record(inner, unit).await,
            _ => Err(unsupported(Capability::Transactions)),
        }
    }
}

// These have no operations yet; what requires them is refused when it is bound.
impl Cursors for AnyBackend {}
impl InboxMarks for AnyBackend {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Broker, Config, Namespace, stream_spec, topic};

    #[stream_spec(name = "any.units", version = 1, requires(ack_groups, transactions, cursors), crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Unit;

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
        for word in ["memory", "any.units.v1", "`Transactions`", "`Cursors`"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!text.contains("AckGroups"), "{text}");
        assert!(Plain::stream(&broker).is_ok());
        assert!(Plain::topic(&broker).is_ok());
        assert!(Plain::stream(&broker).unwrap().ack_group("crew").is_ok());
    }

    #[test]
    fn a_url_that_names_no_backend_is_refused_with_the_remedy() {
        for (url, word) in
            [("", "scheme"), ("memory", "scheme"), ("memory://x", "nothing more"), ("kafka://x", "`kafka`")]
        {
            let refused = AnyBackend::new(url).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.to_string().contains(word), "{refused}");
        }
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
