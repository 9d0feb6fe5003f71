//! NATS, and JetStream.

mod api;
mod check;
mod client;
mod credentials;
mod cursor;
mod fault;
mod link;
mod log;
mod pipeline;
mod settings;
mod subscriber;
mod url;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::routes::Route;
use crate::capability::{
    Backend, BackendError, Checked, Dedup, Feed, Host, Log, Outgoing, PatternPubSub, PubSub, Read, Record,
    StreamAddress, Wanted,
};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{Durability, Positions, Receipt, Start, StreamSettings};
use client::NatsClient;
use settings::Settings;
use subscriber::NatsSubscription;

/// Topics over NATS and streams over JetStream (2.10 or later; tested with 2.10 and 2.15).
///
/// A channel is a subject of the same name, a payload its message, so other programs can take part. A broker has a
/// connection on which it publishes, one for all its subscriptions, and one for everything else, each opened when it is
/// needed. None reconnects or retries by itself: a subscription whose connection breaks ends with `Disconnected`,
/// also when the server says that it is about to end (lame duck mode), and the next operation opens another, to whichever of
/// the URL's servers answers first; servers that a cluster announces are not used. Each is served by a task on the runtime of the operation that opened it.
///
/// # Topics
///
/// What many callers have waiting at once goes out in one write with one `PING` behind it, whose answer confirms it: so a
/// message that the user may not publish fails with `Forbidden`. NATS tells nobody how many heard it. In a cluster a
/// subscription is confirmed by the server that the client is connected to; the others hear of it a moment later.
///
/// Each broker's messages come in the order in which it publishes them; between those of several there is no order, and two
/// subscribers may get them differently ([NATS's answers](https://docs.nats.io/reference/faq): source ordered delivery).
///
/// Address and key have at most 3,500 bytes together, here and in streams.
///
/// # Streams
///
/// A stream is one of JetStream's, with `CloudEvents` headers (binary mode), so other programs can take part: see
/// `docs/wire.md`. It has one partition, in which all keys keep one order; more are `Unsupported`. An append is a request
/// that JetStream answers when most of the stream's copies have the record. So [`Durability::Replicas`](crate::Durability::Replicas)
/// of 1 takes a stream of three `replicas`, and of 2 one of five. An append to no stream is `Absent`; an append whose answer
/// doesn't come within [`Limits::timeout`](crate::Limits::timeout) is `Unknown`, and one with an id can be repeated for as
/// long as [`StreamSettings::dedup_window`](crate::StreamSettings::dedup_window), which is at most `max_age`.
///
/// A read has a consumer on the server, in memory and without acknowledgements, which is kept for 30 s for the next read
/// that goes on there. When it is lost, another goes on at the next sequence. At most as many reads as
/// [`Limits::subscriptions`](crate::Limits::subscriptions) are under way, and the next is `Overloaded`. Records that were
/// removed from the middle are passed over; those that were removed before a position's next are told as `Trimmed`.
///
/// A durable is a durable pull consumer. `JetStream` passes over records that were removed before they were handed out; a
/// handle sees that by the numbers of its deliveries, asks for the stream's first record and tells it as `Trimmed`, without
/// a prefix of keys. What is purged while no handle is bound leaves no trace. A consumer that others reset hands out again
/// what was settled, but what this broker settled in the last five minutes it settles again, as after a server was killed.
///
/// A position is a sequence. Where a server comes back without the last records, the sequence begins again behind those
/// it has, and a reader that was further waits until it is passed: give a stream several `replicas`.
///
/// # Rights
///
/// | to | |
/// |---|---|
/// | publish | `publish` on `address` for a topic without a key, on `address.>` for one with a key |
/// | subscribe | `subscribe` on the same; under a prefix of keys on `address.prefix.>` or more |
/// | anything of streams, and check | `subscribe` on `_INBOX.>`, or what [`inbox_prefix`](Self::inbox_prefix) says |
/// | append | `publish` on the address and on `address.>`, and on `$JS.API.STREAM.INFO.{name}` to learn why a record isn't taken |
/// | read | `publish` on `$JS.API.STREAM.INFO.{name}`, `$JS.API.CONSUMER.CREATE.{name}.>`, `$JS.API.CONSUMER.MSG.NEXT.{name}.>` and `$JS.API.CONSUMER.DELETE.{name}.>`; where the stream has replicas also on `$JS.API.STREAM.MSG.GET.{name}`, without which a read that doesn't wait may end before what was appended last |
/// | ensure, update and delete | `publish` on `$JS.API.STREAM.INFO.{name}`, `$JS.API.STREAM.CREATE.{name}`, `$JS.API.STREAM.NAMES`, `$JS.API.STREAM.UPDATE.{name}` and `$JS.API.STREAM.DELETE.{name}` |
/// | durables | `publish` on `$JS.ACK.>`, `$JS.API.STREAM.INFO.{name}`, `$JS.API.CONSUMER.CREATE.{name}.>`, `$JS.API.CONSUMER.INFO.{name}.>`, `$JS.API.CONSUMER.MSG.NEXT.{name}.>` and `$JS.API.CONSUMER.DELETE.{name}.>`; with a `max_deliver` also `subscribe` on `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{name}.>` |
/// | check | `publish` on `$JS.API.INFO`, where a stream is bound |
#[derive(Clone)]
pub struct Nats {
    settings: Settings,
}

impl Nats {
    /// Takes the servers' URL: `nats://[user:password@]host[:port][,host2[:port]]`, or `tls://..` for TLS. A token
    /// stands alone before the `@`. The port is 4222 where none is given.
    ///
    /// User, password and token are percent-encoded, at most 1,024 bytes each. With several hosts the first that answers
    /// is used. A server that wants TLS gets it by `nats://` too, but only `tls://` never does without. Its certificate and
    /// name are always verified, by the system's authorities or those of [`authority`](Self::authority).
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is wrong in the URL and what to write. The text holds no user, no password and no token.
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let address = url::parse(url.as_ref())
            .map_err(|problem| Error::new(ErrorKind::Invalid, Operation::Build).on("nats").detail(problem))?;
        Ok(Self { settings: Settings::new(address) })
    }

    /// Logs in with a token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.settings.set_token(token.into());
        self
    }

    /// Logs in with an nkey, given by its seed (`SU..`), which never goes over the wire.
    #[must_use]
    pub fn nkey(mut self, seed: impl AsRef<str>) -> Self {
        self.settings.set_seed(seed.as_ref());
        self
    }

    /// Logs in with the text of a credentials file (`.creds`), which holds a user's JWT and its seed.
    #[must_use]
    pub fn credentials(mut self, file: impl AsRef<str>) -> Self {
        self.settings.set_credentials(file.as_ref());
        self
    }

    /// Verifies the servers by these authorities' certificates, as PEM, instead of the system's.
    #[must_use]
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.set_authority(pem.into());
        self
    }

    /// Shows the servers this client's certificate, with those that it was signed by, and proves it by the private key;
    /// both as PEM.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.settings.set_identity(chain.into(), key.into());
        self
    }

    /// Begins with the TLS handshake, for servers with `handshake_first`. Otherwise the server speaks first.
    #[must_use]
    pub fn tls_first(mut self) -> Self {
        self.settings.tls_first = true;
        self
    }

    /// Has replies come to subjects below another prefix than `_INBOX`, for users who may not subscribe to that.
    #[must_use]
    pub fn inbox_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.set_inbox(prefix.into());
        self
    }
}

/// Shows where the servers are, but no user, password, token or key.
impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nats").field(&self.settings).finish()
    }
}

impl Backend for Nats {
    type Client = NatsClient;

    fn system(&self) -> &'static str {
        "nats"
    }

    fn client(&self, host: Host) -> Result<NatsClient, Vec<String>> {
        let problems = self.settings.problems();
        if problems.is_empty() { Ok(NatsClient::new(host, Arc::new(self.settings.clone()))) } else { Err(problems) }
    }

    async fn check(client: &NatsClient, wanted: Wanted) -> Result<Checked, BackendError> {
        let checking = async { Ok(check::check(client, &wanted).await?) };
        client.host.within(Outcome::NotApplied, checking).await
    }

    async fn close(client: &NatsClient) {
        client.close();
    }
}

impl PubSub for Nats {
    type Subscription = NatsSubscription;

    async fn publish(client: &NatsClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        client.publish(&message).await?;
        Ok(None)
    }

    async fn publish_all(client: &NatsClient, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        let published = client.publish_all(messages).await;
        published.into_iter().map(|confirmed| Ok(confirmed.map(|()| None)?)).collect()
    }

    async fn subscribe(
        client: &NatsClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<NatsSubscription, BackendError> {
        client.subscribe(channels.into_iter().map(Route::Channel).collect(), feed).await
    }
}

impl PatternPubSub for Nats {
    async fn subscribe_under(
        client: &NatsClient,
        prefix: Arc<str>,
        feed: Feed,
    ) -> Result<NatsSubscription, BackendError> {
        client.subscribe(vec![Route::Below(prefix)], feed).await
    }
}

impl Log for Nats {
    fn admits(_: &NatsClient, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        log::admits(stream)?;
        match durability {
            Durability::Primary | Durability::Replicas(_) => Ok(()),
            Durability::Fsync => {
                Err("when a server writes to its disk is its own setting `sync_interval`; use `Primary`".to_owned())
            }
        }
    }

    async fn ensure(
        client: &NatsClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        log::ensure(client, stream, settings).await
    }

    async fn update(
        client: &NatsClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        log::update(client, stream, settings).await
    }

    async fn delete(client: &NatsClient, stream: &StreamAddress) -> Result<bool, BackendError> {
        log::delete(client, stream).await
    }

    async fn append(
        client: &NatsClient,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> Result<Receipt, BackendError> {
        log::append(client, stream, record, durability).await
    }

    async fn append_all(
        client: &NatsClient,
        stream: &StreamAddress,
        records: Vec<Record>,
        durability: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        log::append_all(client, stream, records, durability).await
    }

    async fn start(client: &NatsClient, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        log::start(client, stream, start).await
    }

    async fn read(
        client: &NatsClient,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        log::read(client, stream, after, max, wait).await
    }
}

impl Dedup for Nats {
    async fn window(client: &NatsClient, stream: &StreamAddress) -> Result<Duration, BackendError> {
        log::window(client, stream).await
    }
}
