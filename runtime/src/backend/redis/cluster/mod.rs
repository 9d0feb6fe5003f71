//! Topics over sharded channels.

mod client;
mod slots;

use std::fmt;
use std::sync::Arc;

use super::check;
use super::fault::Fault;
use super::settings::Settings;
use super::subscriber::RedisSubscription;
use super::url::{self, Endpoint};
use crate::capability::{Backend, BackendError, Checked, Feed, Host, Outgoing, PubSub, Unsubscribe, Wanted};
use crate::error::{Error, ErrorKind, Operation, Outcome};

use client::RedisClusterClient;
pub(super) use slots::slot;

/// What errors call it: its messaging system is `redis`, as a single server's is.
const NAME: &str = "redis cluster";

fn failed(fault: Fault) -> BackendError {
    let text = format!("{NAME}: {}", fault.text);
    BackendError::from(Fault { text: text.into(), ..fault })
}

/// Topics on sharded channels and streams over a Redis (7.0 or later) or Valkey cluster.
///
/// A message goes to the node that has its channel's slot, and not to the others, so the load spreads; in exchange there
/// are no pattern subscriptions and no count of those who heard. A broker has at most two connections to each node: one
/// to publish and one for subscriptions. When a slot moves, the subscriptions to its channels end with `Disconnected`,
/// and the next ones find the new owner.
///
/// A stream's partitions lie as on a single server, each on the node that has its slot. Here a command can name one
/// partition alone, so a read that waits has a connection for each of them while it lasts; beyond 16 partitions it waits for
/// some and looks at all of them every 100 ms. Ids of appends are remembered in `{<address>.p<n>}:ids`, for each partition.
/// While a slot is on its way to another node, what is asked of its partition is `Refused`.
///
/// A user needs `+cluster|slots`; to publish `+spublish`; to subscribe `+ssubscribe +sunsubscribe +ping`; and the
/// channels, `&address` for a topic without a key and `&address.*` for one with a key. For streams it needs what
/// [`Redis`](super::Redis) says.
#[derive(Clone)]
pub struct RedisCluster {
    settings: Settings,
    seeds: Vec<Endpoint>,
}

impl RedisCluster {
    /// Takes the URLs of one or more nodes, as [`Redis::new`](super::Redis::new) does; the rest of the cluster is found
    /// through them. User, password and TLS are the same for all nodes.
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is wrong in the URLs and what to write. The text holds no user and no password.
    pub fn new<I>(urls: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let invalid = |problem: String| Error::new(ErrorKind::Invalid, Operation::Build).on(NAME).detail(problem);
        let mut settings: Option<Settings> = None;
        let mut seeds = Vec::new();
        for url in urls {
            let address = url::parse(url.as_ref()).map_err(invalid)?;
            if address.database > 0 {
                return Err(invalid("a cluster has the database 0 alone; leave the number out".into()));
            }
            if matches!(address.endpoint, Endpoint::Unix(_)) {
                return Err(invalid("a cluster's nodes are reached over TCP; give `redis://` or `rediss://`".into()));
            }
            seeds.push(address.endpoint.clone());
            let first = &settings.get_or_insert_with(|| Settings::new(address.clone())).address;
            if (first.tls, &first.user, &first.password) != (address.tls, &address.user, &address.password) {
                return Err(invalid("the URLs differ in TLS, user or password; give all nodes the same".into()));
            }
        }
        let settings = settings.ok_or_else(|| invalid("there is no URL; give at least one node's".into()))?;
        Ok(Self { settings, seeds })
    }

    /// Verifies the nodes by these authorities' certificates, as PEM, instead of the system's.
    #[must_use]
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.set_authority(pem.into());
        self
    }

    /// Shows the nodes this client's certificate, with those that it was signed by, and proves it by the private key;
    /// both as PEM.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.settings.set_identity(chain.into(), key.into());
        self
    }
}

/// Shows where the nodes are, but no user, password or key.
impl fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCluster").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

/// Holds a subscription of [`RedisCluster`]: a part on each node that it needs.
#[derive(Debug)]
pub struct RedisClusterSubscription {
    parts: Vec<RedisSubscription>,
}

impl Unsubscribe for RedisClusterSubscription {
    async fn close(self) {
        for part in self.parts {
            part.close().await;
        }
    }
}

impl Backend for RedisCluster {
    type Client = RedisClusterClient;

    fn system(&self) -> &'static str {
        "redis"
    }

    fn client(&self, host: Host) -> Result<RedisClusterClient, Vec<String>> {
        let problems = self.settings.problems();
        if !problems.is_empty() {
            return Err(problems.into_iter().map(|problem| format!("{NAME}: {problem}")).collect());
        }
        Ok(RedisClusterClient::new(host, Arc::new(self.settings.clone()), self.seeds.clone()))
    }

    async fn check(client: &RedisClusterClient, wanted: Wanted) -> Result<Checked, BackendError> {
        let checking = async {
            let mut last = Fault::unreachable("the cluster has no node");
            for seed in &*client.seeds {
                match check::check::<RedisClusterClient>(&client.settings, seed, &client.host, &wanted, &check::SHARDED)
                    .await
                {
                    Ok(checked) => return Ok(checked),
                    Err(fault) => last = fault,
                }
            }
            Err(failed(last))
        };
        client.host.within(Outcome::NotApplied, checking).await
    }

    async fn close(client: &RedisClusterClient) {
        client.close();
    }
}

impl PubSub for RedisCluster {
    type Subscription = RedisClusterSubscription;

    async fn publish(client: &RedisClusterClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        client.publish(&message).await.map(|_| None).map_err(failed)
    }

    async fn publish_all(
        client: &RedisClusterClient,
        messages: Vec<Outgoing>,
    ) -> Vec<Result<Option<u64>, BackendError>> {
        let replies = client.publish_all(&messages).await;
        replies.into_iter().map(|reply| reply.map(|_| None).map_err(failed)).collect()
    }

    async fn subscribe(
        client: &RedisClusterClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<RedisClusterSubscription, BackendError> {
        let subscribing = async {
            let parts = client.subscribe(channels, &feed).await.map_err(failed)?;
            Ok(RedisClusterSubscription { parts })
        };
        client.host.within(Outcome::NotApplied, subscribing).await
    }
}

super::streams::streams!(RedisCluster, RedisClusterClient, failed);
