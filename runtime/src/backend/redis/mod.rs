//! Redis and Valkey, alone or as a cluster.

mod check;
mod cluster;
mod fault;
mod link;
mod pipeline;
mod resp;
mod settings;
mod streams;
mod subscriber;
mod url;

use std::fmt;
use std::sync::Arc;

use crate::capability::{Backend, BackendError, Checked, Feed, Host, Outgoing, PatternPubSub, PubSub, Wanted};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use fault::Fault;

pub use cluster::RedisCluster;
use pipeline::{Pipeline, Publish};
use settings::Settings;
use streams::{Node, Nodes, Waiting};
use subscriber::{RedisSubscription, Route, Subscriber, Words};

/// Topics and streams over one Redis (7.0 or later) or Valkey server.
///
/// A channel is a Redis channel of the same name, a payload its message, so other programs can take part. A broker has
/// at most two connections, opened when they are needed: one on which it publishes what many callers have waiting at
/// once, in one write, and one for all its subscriptions. Neither reconnects or retries by itself.
/// Each is served by a task on the runtime of the operation that opened it. When that runtime ends, so does the
/// connection, and the next operation opens another; while it isn't driven, what waits for the connection waits too.
///
/// Use [`RedisCluster`](super::RedisCluster) for a cluster.
///
/// # Streams
///
/// Each partition of a stream is a Redis stream `{<address>.p<n>}:log`, whose entries have the fields that
/// `docs/wire.md` names, and an ack group is a consumer group on each of them.
/// The settings are in the hash `{<address>}:meta`. A stream at an address of its own is that key: one partition, and where
/// it has no settings beside it, those by default. Fields of others' that are no attribute are left out when they are read.
///
/// Appends go out as publishes do, on one connection; those that wait for replicas (`WAIT`) or the disk (`WAITAOF`) on one
/// of their own. `Durability::Fsync` is confirmed where the server writes its append-only file to the disk by itself:
/// `appendfsync no` leaves that to the system, so that it fails with `Timeout`. Settlements and short reads have a
/// connection each, and a read that waits has one of its own while it lasts: at most as many as `subscriptions`, and the
/// next is `Overloaded`. It asks the server again with each `heartbeat`, so that a server that hangs is told to a read, a tail
/// or an idle worker within about one of these and a `timeout`.
///
/// `ensure` changes no settings of a stream that is there, and `update` is `Unsupported`. Retention and the window are changed
/// on the server, by `HSET {<address>}:meta max_len 100` (or `max_age_ms`, `dedup_window_ms`; empty for no retention), which
/// brokers go by within some 5 s. Then `ensure` asks for the new ones. `partitions` has to stay as it is.
///
/// Ids of appends are remembered in `{<address>}:ids` and `{<address>}:ids:times`. An entry is trimmed by whole nodes of
/// the server's tree; what was given back is idle since 1970.
///
/// What was removed before an ack group had it is told by the server's count of what the group has read, which is compared
/// in one transaction with each read; that takes the server some 2 µs for each group of the stream. A group that begins in
/// the middle isn't counted until it has got to the end, so it is told `Trimmed { certain: false }`; an entry deleted from
/// among others (`XDEL`) isn't told for sure either. What one read found in several partitions is told by as many. A read
/// that finds nothing looks once more in the write by which it waits: what is both appended and removed just between these
/// two, or by one transaction of others during the wait, isn't told, by Redis 7.0 later. A process that is killed, or a
/// connection that breaks, between the server's answer and the caller takes what was to be told with it.
///
/// # Rights
///
/// A user that publishes needs `+publish`; one that subscribes needs `+subscribe +unsubscribe +ping`; both need the
/// channels, `&address` for a topic without a key and `&address.*` for one with a key.
///
/// Subscribing to every key or under a prefix needs `+psubscribe +punsubscribe +ping`, and the server compares a pattern
/// with the user's channel patterns as text: `&address.*` grants every key and no prefix, so each prefix needs its own
/// `&address.eu.*`, or the user `allchannels`. [`Broker::check`](crate::Broker::check) asks for every key alone, since it
/// can't know the prefixes. Of streams it asks for all below but durability, so it tells what a user lacks on purpose, too. It
/// reads by `+info +acl|whoami +acl|dryrun +config|get`, and reports what it couldn't read.
///
/// For streams a user needs the keys `~{address.p*` and `~{address}:*` (`~address` for a stream at an address of its own) and
///
/// | to | |
/// |---|---|
/// | append | `+hgetall +xadd`, with retention `+xtrim`, with ids `+evalsha +eval +exists +time +zscore +zadd +zrangebyscore +zrem +hset +hget +hdel`, with durability `+wait` or `+waitaof` |
/// | read | `+hgetall +xrange +xread +xinfo\|stream +client\|unblock +evalsha +eval` |
/// | consume in a group | that of reading, and `+multi +exec +xlen +xreadgroup +xack +xpending +xclaim +xautoclaim +xrevrange +xinfo\|groups +xgroup\|setid +time` |
/// | ensure a group, as a worker does that makes it anew | that of reading, and `+xgroup\|create` |
/// | delete a group, remove a consumer, trim what is acknowledged | that of consuming, and `+xgroup\|destroy +xgroup\|delconsumer +xtrim` |
/// | ensure and delete a stream | `+hgetall +evalsha +eval +type +exists +hset +xgroup\|create +xgroup\|destroy +unlink` |
///
/// Without `+unsubscribe` a channel that nobody listens to any more goes on being sent, and isn't delivered, until the
/// connection ends.
#[derive(Clone)]
pub struct Redis {
    settings: Settings,
}

impl Redis {
    /// Takes a server's URL: `redis://[user:password@]host[:port][/database]`, `rediss://..` for TLS, or
    /// `unix:/path[?db=number&user=name&pass=password]`. `valkey://`, `valkeys://`, `redis+unix:` and `valkey+unix:` are
    /// the same by other names.
    ///
    /// User and password are percent-encoded. The database is selected, but channels are the same in all of them. With
    /// TLS the server's certificate and name are always verified, by the system's authorities or those of
    /// [`authority`](Self::authority).
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is wrong in the URL and what to write. The text holds no user and no password.
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let address = url::parse(url.as_ref())
            .map_err(|problem| Error::new(ErrorKind::Invalid, Operation::Build).on("redis").detail(problem))?;
        Ok(Self { settings: Settings::new(address) })
    }

    /// Verifies the server by these authorities' certificates, as PEM, instead of the system's.
    #[must_use]
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.set_authority(pem.into());
        self
    }

    /// Shows the server this client's certificate, with those that it was signed by, and proves it by the private key;
    /// both as PEM.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.settings.set_identity(chain.into(), key.into());
        self
    }
}

/// Shows where the server is, but no user, password or key.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.settings).finish()
    }
}

/// The connections of one broker to one server.
pub struct RedisClient {
    host: Host,
    settings: Arc<Settings>,
    publisher: Pipeline<u64>,
    subscriber: Subscriber,
    node: Arc<Node>,
    waiting: Waiting,
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Backend for Redis {
    type Client = RedisClient;

    fn system(&self) -> &'static str {
        "redis"
    }

    fn client(&self, host: Host) -> Result<RedisClient, Vec<String>> {
        let problems = self.settings.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let settings = Arc::new(self.settings.clone());
        let endpoint = settings.address.endpoint.clone();
        let words = Words { subscribe: "SUBSCRIBE", unsubscribe: "UNSUBSCRIBE" };
        Ok(RedisClient {
            publisher: Pipeline::new(host.clone(), settings.clone(), endpoint.clone(), "redis publisher"),
            node: Arc::new(Node::new(&host, &settings, &endpoint)),
            waiting: Waiting::new(&host),
            subscriber: Subscriber::new(host.clone(), settings.clone(), endpoint, words),
            host,
            settings,
        })
    }

    async fn check(client: &RedisClient, wanted: Wanted) -> Result<Checked, BackendError> {
        let endpoint = &client.settings.address.endpoint;
        let checking = async {
            Ok(check::check::<RedisClient>(&client.settings, endpoint, &client.host, &wanted, &check::PLAIN).await?)
        };
        client.host.within(Outcome::NotApplied, checking).await
    }

    async fn close(client: &RedisClient) {
        client.publisher.close();
        client.subscriber.close();
        client.node.close();
    }
}

impl PubSub for Redis {
    type Subscription = RedisSubscription;

    async fn publish(client: &RedisClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        Ok(client.publisher.call(&Publish("PUBLISH", &message)).await.map(Some)?)
    }

    async fn publish_all(client: &RedisClient, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        let replies = client.publisher.call_all(messages.iter().map(|message| Publish("PUBLISH", message))).await;
        replies.into_iter().map(|reply| Ok(reply.map(Some)?)).collect()
    }

    async fn subscribe(
        client: &RedisClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<RedisSubscription, BackendError> {
        subscribe(client, channels.into_iter().map(Route::Channel).collect(), feed).await
    }
}

impl PatternPubSub for Redis {
    async fn subscribe_under(
        client: &RedisClient,
        prefix: Arc<str>,
        feed: Feed,
    ) -> Result<RedisSubscription, BackendError> {
        subscribe(client, vec![Route::Below(prefix)], feed).await
    }
}

async fn subscribe(client: &RedisClient, routes: Vec<Route>, feed: Feed) -> Result<RedisSubscription, BackendError> {
    let subscribing = async { client.subscriber.subscribe(routes, feed).await.map_err(BackendError::from) };
    client.host.within(Outcome::NotApplied, subscribing).await
}

/// One server has all slots.
impl Nodes for RedisClient {
    const APART: bool = false;

    fn host(&self) -> &Host {
        &self.host
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn known(&self, _: u16) -> Result<Option<Arc<Node>>, Fault> {
        Ok(Some(self.node.clone()))
    }

    async fn owner(&self, _: u16) -> Result<Arc<Node>, Fault> {
        Ok(self.node.clone())
    }

    fn redirected(&self, _: &Fault, _: &Node) -> Option<Arc<Node>> {
        None
    }

    fn doubt(&self) {}
}

streams::streams!(Redis, RedisClient, BackendError::from);
