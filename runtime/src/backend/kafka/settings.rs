//! What a backend's value holds, and the client settings that come of it.

use std::fmt;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::url::Address;
use crate::broker::Limits;

/// How a user proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sasl {
    /// `PLAIN`: the password itself is sent. Use TLS with it.
    Plain,
    /// `SCRAM-SHA-256`: the password never goes over the wire.
    ScramSha256,
    /// `SCRAM-SHA-512`: the same with a longer hash.
    ScramSha512,
}

impl Sasl {
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// How the members of a commit group agree on who has which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupProtocol {
    /// The members compute it, one of them for all. Every Kafka has it.
    Classic,
    /// The server computes it and moves one partition at a time (KIP-848). Kafka 4.0 or later.
    Consumer,
}

/// How to reach a cluster and how to log in. What is secret in it has no `Debug`.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    sasl: Option<Sasl>,
    pub(super) session_timeout: Duration,
    pub(super) transactional_id: Option<String>,
    pub(super) group_protocol: Option<GroupProtocol>,
    pub(super) buffer_bytes: usize,
}

const SHORTEST_SESSION: Duration = Duration::from_secs(1);
const LONGEST_SESSION: Duration = Duration::from_mins(30);
const LEAST_BUFFER: usize = 1 << 20;
const MOST_BUFFER: usize = 1 << 30;
/// What goes into a group's or a transaction's name beside it.
const MOST_ID_BYTES: usize = 128;
/// As large as a record can be with the largest limits: payload, key and headers.
const MOST_RECORD_BYTES: u64 = 10 << 20;

impl Settings {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            authority: None,
            identity: None,
            sasl: None,
            session_timeout: Duration::from_secs(45),
            transactional_id: None,
            group_protocol: None,
            buffer_bytes: 64 << 20,
        }
    }

    /// Replaces the authorities' certificates.
    pub(super) fn set_authority(&mut self, pem: Vec<u8>) {
        self.authority = Some(pem);
    }

    /// Replaces the client's own certificate.
    pub(super) fn set_identity(&mut self, chain: Vec<u8>, key: Vec<u8>) {
        self.identity = Some((chain, key));
    }

    pub(super) fn set_sasl(&mut self, sasl: Sasl) {
        self.sasl = Some(sasl);
    }

    /// Everything that can be known to be wrong without I/O.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut problem = |text: &str| problems.push(text.to_owned());
        if !self.address.tls && (self.authority.is_some() || self.identity.is_some()) {
            problem("certificates are given but the URL has no TLS; write `kafka+ssl://`");
        }
        let pem = |pem: &[u8], what: &str| {
            std::str::from_utf8(pem).is_ok_and(|text| text.contains("-----BEGIN ") && text.contains(what))
        };
        if self.authority.as_deref().is_some_and(|authority| !pem(authority, "CERTIFICATE-----")) {
            problem("the authority's certificate isn't PEM");
        }
        if let Some((chain, key)) = &self.identity {
            if !pem(chain, "CERTIFICATE-----") {
                problem("the client's certificate isn't PEM");
            }
            if !pem(key, "PRIVATE KEY-----") {
                problem("the client's key isn't a private key as PEM");
            }
        }
        if self.sasl.is_some() && self.address.login.is_none() {
            problem("a way to log in is given but no user; write `kafka://user:password@..`");
        }
        if !(SHORTEST_SESSION..=LONGEST_SESSION).contains(&self.session_timeout) {
            let text = format!("`session_timeout` is {:?}; give 1 s to 30 min", self.session_timeout);
            problem(&text);
        }
        if let Some(id) = &self.transactional_id
            && (id.is_empty() || id.len() > MOST_ID_BYTES || id.chars().any(char::is_control))
        {
            let text =
                format!("`transactional_id` has {} bytes or a control character; give 1 to {MOST_ID_BYTES}", id.len());
            problem(&text);
        }
        if !(LEAST_BUFFER..=MOST_BUFFER).contains(&self.buffer_bytes) {
            let text = format!("`buffer_bytes` is {}; give {LEAST_BUFFER} to {MOST_BUFFER}", self.buffer_bytes);
            problem(&text);
        }
        problems
    }

    /// How the user proves who it is. A password isn't sent over a plain connection unless that is asked for.
    fn mechanism(&self) -> Sasl {
        self.sasl.unwrap_or(if self.address.tls { Sasl::Plain } else { Sasl::ScramSha512 })
    }

    /// What every client has.
    fn client(&self, limits: &Limits) -> ClientConfig {
        let mut config = ClientConfig::new();
        let endpoints: Vec<_> = self.address.endpoints.iter().map(ToString::to_string).collect();
        let security = match (self.address.tls, self.address.login.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        let timeout = millis(limits.timeout);
        config
            .set_log_level(RDKafkaLogLevel::Emerg)
            .set("bootstrap.servers", endpoints.join(","))
            .set("security.protocol", security)
            .set("client.id", "tidings")
            // Nothing but `ensure` creates a topic.
            .set("allow.auto.create.topics", "false")
            .set("socket.nagle.disable", "true")
            .set("socket.keepalive.enable", "true")
            .set("socket.timeout.ms", timeout.clamp(10, 300_000).to_string())
            .set("socket.connection.setup.timeout.ms", timeout.clamp(1_000, 30_000).to_string())
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            // What a client tells a server of itself unasked.
            .set("enable.metrics.push", "false");
        if let Some((user, password)) = &self.address.login {
            config
                .set("sasl.mechanism", self.mechanism().word())
                .set("sasl.username", user)
                .set("sasl.password", password);
        }
        let pem = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        if let Some(authority) = &self.authority {
            config.set("ssl.ca.pem", pem(authority));
        }
        if let Some((chain, key)) = &self.identity {
            config.set("ssl.certificate.pem", pem(chain)).set("ssl.key.pem", pem(key));
        }
        config
    }

    /// A client that asks, and neither appends nor reads.
    pub(super) fn control(&self, limits: &Limits) -> ClientConfig {
        let mut config = self.client(limits);
        config.set("isolation.level", "read_committed");
        config
    }

    /// A client that creates and removes.
    pub(super) fn admin(&self, limits: &Limits) -> ClientConfig {
        self.client(limits)
    }

    /// A client that appends, each record once and in order.
    pub(super) fn producer(&self, limits: &Limits) -> ClientConfig {
        let mut config = self.client(limits);
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            // What waits goes out together while an answer is under way; waiting for more would only cost time.
            .set("linger.ms", LINGER)
            .set("message.timeout.ms", millis(limits.timeout).to_string())
            .set("message.max.bytes", MOST_RECORD_BYTES.to_string())
            .set("queue.buffering.max.messages", MOST_MESSAGES.to_string())
            .set("queue.buffering.max.kbytes", (self.buffer_bytes >> 10).to_string())
            // How long a topic that isn't there is hoped for: `ensure` returns when it is.
            .set("topic.metadata.propagation.max.ms", "1000")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "500");
        config
    }

    /// A client that appends by transactions, under an id of its own.
    #[allow(dead_code)]
    pub(super) fn transactional(&self, limits: &Limits, id: &str) -> ClientConfig {
        let mut config = self.producer(limits);
        config
            .set("transactional.id", id)
            .set("transaction.timeout.ms", millis(limits.timeout).clamp(1_000, 900_000).to_string());
        config
    }

    /// A client that reads what is committed, from where it is told to, and commits nothing by itself.
    pub(super) fn consumer(&self, limits: &Limits, group: &str) -> ClientConfig {
        let mut config = self.client(limits);
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", FETCH_WAIT.as_millis().to_string())
            .set("fetch.error.backoff.ms", "50")
            // Otherwise a consumer that has read enough ahead fetches again a second later.
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.message.max.bytes", FETCH_BYTES.to_string())
            .set("fetch.max.bytes", MOST_RECORD_BYTES.to_string())
            // What is read ahead.
            .set("queued.min.messages", limits.read_records.to_string())
            .set("queued.max.messages.kbytes", (MOST_RECORD_BYTES >> 10).to_string());
        config
    }
}

/// How long a server may hold a request for records while there are none.
pub(super) const FETCH_WAIT: Duration = Duration::from_millis(250);
const FETCH_BYTES: u32 = 1 << 20;
/// As librdkafka has it.
const MOST_MESSAGES: u32 = 100_000;
/// Milliseconds.
const LINGER: &str = "0";

/// Whole milliseconds, at least one.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

/// Without user, password and keys.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoints", &self.address.endpoints)
            .field("tls", &self.address.tls)
            .field("session_timeout", &self.session_timeout)
            .field("group_protocol", &self.group_protocol)
            .field("buffer_bytes", &self.buffer_bytes)
            .finish_non_exhaustive()
    }
}
