//! Apache Kafka.

mod check;
mod client;
mod fault;
mod groups;
mod log;
mod settings;
mod unit;
mod url;
mod waits;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::capability::{Backend, BackendError, Checked, Host, Log, Read, Record, StreamAddress, Tombstones, Wanted};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{Durability, Positions, Receipt, Start, StreamSettings};
use client::Clients;
use settings::Settings;
pub use settings::{GroupProtocol, Sasl};

/// Streams over Apache Kafka (2.4 or later; tested with 4.0 and 4.4), or what speaks its protocol.
///
/// A stream is a topic of the same name, its partitions are the topic's, and a record is a message with `CloudEvents`
/// headers (binary mode), so other programs can take part. Nothing but `ensure` creates a topic, also where the server
/// would create one for whoever asks for it. There are no topics in this library's sense: Kafka has no ephemeral fan-out.
///
/// # Appends
///
/// A broker has one idempotent producer, which waits for all copies in sync (`acks=all`, with the topic's
/// `min.insync.replicas`), so that a record is stored once and in order whatever the producer repeats. A key's partition is
/// the one that the Java client chooses. An append whose confirmation doesn't come within
/// [`Limits::timeout`](crate::Limits::timeout) fails with `Timeout` and the outcome `Unknown`: whether it was sent can't be
/// told any more. What is on its way is bounded by [`buffer_bytes`](Self::buffer_bytes); beyond, an append is `Overloaded`.
///
/// # Reads
///
/// A read sees what is committed (`read_committed`): nothing of a transaction that is open or was given up. Offsets
/// without a record, of compacted records or a transaction's markers, are no loss. A read belongs to no group. Each
/// that is under way has a thread and a consumer, at most as many as
/// [`Limits::subscriptions`](crate::Limits::subscriptions), and the next is `Overloaded`. An idle consumer fetches
/// ahead for a second, at most 10 MiB and one record, and is kept for ten.
///
/// # Commit groups
///
/// A commit group is a consumer group, whose name is the topic's and its own: see `docs/wire.md`. A member is a consumer of
/// librdkafka on a thread of its own, and a second one where it commits. It reads ahead by at most 4,096 records and
/// 4 MiB, and librdkafka by about 4 MiB for each partition. Where its server is out of reach, a read says so once
/// (`Unavailable`), and the member goes on when the server is back.
///
/// While a member hands over, librdkafka fetches nothing of its other partitions either. A member that leaves while it is
/// still joining first waits to be in, at most 2 s: the group would wait for it as long as a session otherwise. What is
/// committed for a group without members expires with the server's `offsets.retention.minutes`; then the group is `Absent`.
/// A stream that is removed and made anew at once is the same one to librdkafka, which goes on at the offset where it was:
/// members hear of it too late, or not at all. Wait a second in between, in which each of them learns that it is gone.
/// A member's name is taken over by whoever joins with it last, or with [`GroupProtocol::Consumer`] refused to who comes
/// second, whose membership ends with `Revoked`.
///
/// # Units
///
/// A unit is a transaction: up to 4 at once, each on a producer and a thread of its own, which are made when they are needed
/// and kept. The first unit on each takes longer. One that isn't recorded within
/// [`Limits::timeout`](crate::Limits::timeout) is undone by the server at the latest then.
///
/// # Settings
///
/// `ensure` sets `retention.ms` from `max_age`, no bound of bytes, and timestamps by the server's clock. Kafka
/// removes whole segments, so a record may stay for twice as long and some minutes more. It counts no records and remembers
/// no ids: `max_len` and another `dedup_window` than the default are `Unsupported`. A durability other than
/// `Primary` is refused: how many copies confirm a record is the topic's `min.insync.replicas`.
///
/// # Rights
///
/// | to | |
/// |---|---|
/// | append | Describe and Write on the topic; before Kafka 2.8 IdempotentWrite on the cluster |
/// | read | Describe and Read on the topic |
/// | be a member | Describe and Read on the topic, Read on the group |
/// | record units | Describe and Write on the topics and on the transactional ids; Read on the groups that they commit |
/// | ensure and delete a group | Describe and Read on the topic, Read and Delete on the group |
/// | ensure and delete | Create, Delete, Describe and DescribeConfigs on the topic |
#[derive(Clone)]
pub struct Kafka {
    settings: Settings,
}

impl Kafka {
    /// Takes a cluster's URL: `kafka://[user:password@]host[:port][,host2[:port]]`, or `kafka+ssl://..` for TLS
    /// (`kafkas://` is the same). The port is 9092 where none is given. The hosts are those that are asked for the others.
    ///
    /// User and password are percent-encoded, at most 1,024 bytes each. They are sent by `PLAIN` over TLS, and by
    /// `SCRAM-SHA-512` otherwise, unless [`sasl`](Self::sasl) says how. With TLS the server's certificate and name are
    /// always verified, by the system's authorities or those of [`authority`](Self::authority).
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is wrong in the URL and what to write. The text holds no user and no password.
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let address = url::parse(url.as_ref())
            .map_err(|problem| Error::new(ErrorKind::Invalid, Operation::Build).on("kafka").detail(problem))?;
        Ok(Self { settings: Settings::new(address) })
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

    /// Sets how the URL's user logs in.
    #[must_use]
    pub fn sasl(mut self, mechanism: Sasl) -> Self {
        self.settings.set_sasl(mechanism);
        self
    }

    /// Sets after how long a silent member of a group is thought dead. Default 45 s, 1 s to 30 min.
    ///
    /// With [`GroupProtocol::Consumer`] that is the server's own setting.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// Sets what the names of transactions begin with, 1 to 128 bytes. Default: a random one for each broker.
    ///
    /// Under a name that lasts over restarts a process replaces its predecessor, whose transactions fail with `Fenced`. So
    /// it stands for one process at a time.
    #[must_use]
    pub fn transactional_id(mut self, prefix: impl Into<String>) -> Self {
        self.settings.transactional_id = Some(prefix.into());
        self
    }

    /// Sets how the members of a commit group agree on who has which partition. Default:
    /// `Classic`, which every server has.
    #[must_use]
    pub fn group_protocol(mut self, protocol: GroupProtocol) -> Self {
        self.settings.group_protocol = Some(protocol);
        self
    }

    /// Sets how many bytes of records may be on their way to the servers at once. Default 64 MiB, 1 MiB to 1 GiB; at most
    /// 100,000 records.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.settings.buffer_bytes = bytes;
        self
    }
}

/// Shows where the cluster is, but no user, password or key.
impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kafka").field(&self.settings).finish()
    }
}

/// One broker's clients of a cluster.
pub struct KafkaClient {
    clients: Arc<Clients>,
}

impl KafkaClient {
    fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }
}

impl fmt::Debug for KafkaClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaClient").field("settings", &self.clients.settings).finish_non_exhaustive()
    }
}

impl Drop for KafkaClient {
    fn drop(&mut self) {
        self.clients.stop();
    }
}

impl Backend for Kafka {
    type Client = KafkaClient;

    fn system(&self) -> &'static str {
        "kafka"
    }

    fn client(&self, host: Host) -> Result<KafkaClient, Vec<String>> {
        let problems = self.settings.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(KafkaClient { clients: Clients::new(host, Arc::new(self.settings.clone())) })
    }

    async fn check(client: &KafkaClient, wanted: Wanted) -> Result<Checked, BackendError> {
        let clients = &client.clients;
        let checking = async { Ok(check::check(clients, wanted).await?) };
        clients.host.within(Outcome::NotApplied, checking).await
    }

    async fn close(client: &KafkaClient) {
        client.clients.stop();
    }
}

impl Log for Kafka {
    fn admits(_: &KafkaClient, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        log::admits(stream)?;
        match durability {
            Durability::Primary => Ok(()),
            Durability::Replicas(_) => {
                Err("how many copies confirm a record is the topic's `min.insync.replicas`; use `Primary`".to_owned())
            }
            Durability::Fsync => {
                Err("when a server writes to its disk is the topic's `flush.messages`; use `Primary`".to_owned())
            }
        }
    }

    async fn ensure(
        client: &KafkaClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        log::ensure(&client.clients, stream, settings).await
    }

    async fn delete(client: &KafkaClient, stream: &StreamAddress) -> Result<bool, BackendError> {
        log::delete(&client.clients, stream).await
    }

    async fn append(
        client: &KafkaClient,
        stream: &StreamAddress,
        record: Record,
        _: Durability,
    ) -> Result<Receipt, BackendError> {
        log::append(&client.clients, stream, record).await
    }

    async fn append_all(
        client: &KafkaClient,
        stream: &StreamAddress,
        records: Vec<Record>,
        _: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        log::append_all(&client.clients, stream, records).await
    }

    async fn start(client: &KafkaClient, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        let clients = &client.clients;
        clients.host.within(Outcome::NotApplied, async { Ok(log::start(clients, stream, start).await?) }).await
    }

    async fn read(
        client: &KafkaClient,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        Ok(log::read(&client.clients, stream, after, max, wait).await?)
    }
}

impl Tombstones for Kafka {}
