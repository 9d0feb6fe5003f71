//! What can go wrong, in words that hold no payload, key or credential.

use std::io;
use std::sync::Arc;

use async_nats::jetstream::ErrorCode;

use super::super::authority::HostPort;
use super::wire;
use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// What JetStream is asked by begins with it; a stream's name follows within five words.
const JETSTREAM: &str = "$JS.API.";
/// One of these, with one word more before the name.
const FETCHES: &str = "$JS.API.CONSUMER.MSG.NEXT.";

/// A failure that several callers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) outcome: Outcome,
    pub(super) text: Arc<str>,
    /// JetStream's number for it; 0 where there is none.
    pub(super) code: ErrorCode,
}

/// What a server complains of, as far as it matters to who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// This subject may not be published to.
    Publish(String),
    /// This subject may not be subscribed to.
    Subscribe(String),
    /// The connection can't have more subscriptions.
    Subscriptions,
    /// The connection is closed for it.
    Fatal(Fault),
    /// It concerns nobody.
    Other,
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, outcome: Outcome, text: impl Into<Arc<str>>) -> Self {
        Self { kind, outcome, text: text.into(), code: ErrorCode(0) }
    }

    /// The server can't be reached; nothing was sent.
    pub(super) fn unreachable(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unavailable, Outcome::NotApplied, text)
    }

    pub(super) fn forbidden(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Forbidden, Outcome::NotApplied, text)
    }

    pub(super) fn closed(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Closed, outcome, "the broker was closed")
    }

    pub(super) fn timeout(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Timeout, outcome, "the server didn't answer within the timeout")
    }

    pub(super) fn task_ended() -> Self {
        Self::unreachable("the connection's task ended")
    }

    /// The same for a caller whose command had been sent.
    pub(super) fn sent(&self) -> Self {
        Self { outcome: Outcome::Unknown, ..self.clone() }
    }

    /// A broken connection, by its kind: the system's text may hold an address.
    pub(super) fn io(error: &io::Error) -> Self {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            io::ErrorKind::InvalidData => {
                if let Some(rustls::Error::AlertReceived(alert)) = inner(error)
                    && is_about_a_certificate(*alert)
                {
                    return Self::forbidden(
                        "the server wants a client's certificate, or another; see `client_certificate`",
                    );
                }
                match inner(error) {
                    // A certificate's refusal names what is wrong with it, and no secret.
                    Some(refused) => format!("TLS failed: {refused}"),
                    None => "the connection broke: invalid data".to_owned(),
                }
            }
            kind => format!("the connection broke: {kind}"),
        };
        Self::unreachable(text)
    }

    pub(super) fn malformed() -> Self {
        Self::unreachable("the server sent what isn't NATS; is it a NATS server at all?")
    }

    pub(super) fn oversized() -> Self {
        Self::unreachable("the server sent a message of more than 64 MiB")
    }

    pub(super) fn unresolved() -> Self {
        Self::unreachable("the host's name doesn't resolve")
    }

    /// A connection that didn't come about. A host is told only here, where its name has been resolved: what doesn't
    /// resolve may be a token at the wrong place.
    pub(super) fn connect(error: &io::Error, endpoint: &HostPort) -> Self {
        Self::unreachable(format!("couldn't connect to {endpoint}: {}", error.kind()))
    }

    pub(super) fn handshake(error: &io::Error) -> Self {
        let inner = inner(error);
        match (error.kind(), inner) {
            (io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset, _) => {
                Self::unreachable("the server closed the connection during the TLS handshake; does the port speak TLS?")
            }
            (_, Some(rustls::Error::InvalidMessage(_))) => {
                Self::unreachable("the server answered the TLS handshake with what isn't TLS; does the port speak TLS?")
            }
            _ => Self::io(error),
        }
    }

    /// The message is larger than the server takes, header and payload together.
    pub(super) fn too_large(bytes: usize, most: usize) -> Self {
        let text =
            format!("with its headers it has {bytes} bytes, and the server's `max_payload` is {most}; raise it there");
        Self::new(ErrorKind::TooLarge, Outcome::NotApplied, text)
    }

    /// Below an address the subject has a key, which no error tells; what JetStream is asked by has none at first.
    pub(super) fn no_right_to_publish(subject: &str) -> Self {
        let what = if subject.starts_with(JETSTREAM) {
            let rest = if subject.starts_with(FETCHES) { 6 } else { 5 };
            let known: Vec<_> = subject.split('.').take(rest).collect();
            let below = if subject.split('.').nth(rest).is_some() { ".>" } else { "" };
            format!("`{}{below}`", known.join("."))
        } else if subject.starts_with(wire::SETTLEMENTS) {
            format!("`{}>`", wire::SETTLEMENTS)
        } else {
            "the address, and with a key for all below it (`.>`); `address()` tells it".to_owned()
        };
        Self::forbidden(format!("the server refused to take it; grant the user `publish` for {what}"))
    }

    pub(super) fn no_right_to_subscribe() -> Self {
        Self::forbidden(
            "the server refused to subscribe; grant the user `subscribe` for the subject, or for all below it",
        )
    }

    pub(super) fn no_right_to_reply() -> Self {
        Self::forbidden(
            "the server refused to send replies; grant the user `subscribe` for `_INBOX.>`, or say `inbox_prefix`",
        )
    }
}

impl Fault {
    /// What JetStream answered instead of doing it. Its own words may name a subject, and with it a key, so only the number
    /// is kept.
    pub(super) fn of_jetstream(code: ErrorCode, words: &str) -> Self {
        let (kind, meaning) = meaning(code, words);
        let text = format!("JetStream answered {}: {meaning}", code.0);
        Self { code, ..Self::new(kind, Outcome::NotApplied, text) }
    }

    /// Nobody takes requests to JetStream, although the server has it.
    pub(super) fn jetstream_is_away() -> Self {
        let text = "JetStream doesn't take requests at the moment: it starts, or no server of the cluster leads it";
        Self { code: ErrorCode::CLUSTER_NOT_AVAILABLE, ..Self::unreachable(text) }
    }

    /// Nobody takes requests to JetStream.
    pub(super) fn no_jetstream() -> Self {
        let text = "the server has no JetStream, or the account may not use it; switch `jetstream` on there";
        Self::new(ErrorKind::Unsupported, Outcome::NotApplied, text)
    }
}

/// What JetStream means by a number, and its kind.
fn meaning(code: ErrorCode, words: &str) -> (ErrorKind, &'static str) {
    let refused = |meaning| (ErrorKind::Refused, meaning);
    let unavailable = |meaning| (ErrorKind::Unavailable, meaning);
    match code {
        ErrorCode::STREAM_NOT_FOUND => (ErrorKind::Absent, "the stream isn't there; `ensure` creates it"),
        ErrorCode::CONSUMER_NOT_FOUND | ErrorCode::CONSUMER_DOES_NOT_EXIST => {
            (ErrorKind::Absent, "the consumer isn't there")
        }
        ErrorCode::STREAM_NOT_MATCH => {
            (ErrorKind::Absent, "another stream takes what is sent to this address; remove it, and call `ensure`")
        }
        ErrorCode::STREAM_NAME_EXIST => (ErrorKind::Conflict, "the stream exists with other settings"),
        ErrorCode::STREAM_SUBJECT_OVERLAP => (ErrorKind::Conflict, "another stream takes subjects of this address"),
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT | ErrorCode::NO_ACCOUNT => {
            (ErrorKind::Unsupported, "JetStream isn't switched on for this account; switch `jetstream` on there")
        }
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => {
            (ErrorKind::Unsupported, "a server that is alone keeps one copy; ask for one replica, or use a cluster")
        }
        // So it says while some of them are down, or have just begun.
        ErrorCode::CLUSTER_NO_PEERS => refused(
            "the cluster has too few servers with room for so many replicas; wait for those that are down, or ask for fewer",
        ),
        ErrorCode::CLUSTER_REQUIRED | ErrorCode::CLUSTER_TAGS => {
            (ErrorKind::Unsupported, "the cluster has too few servers with room for so many replicas; ask for fewer")
        }
        ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED
        | ErrorCode::STREAM_LIMITS => refused(
            "server or account has no room left; raise `max_file_store` or the account's limits, or remove streams",
        ),
        ErrorCode::NO_LIMITS => refused("the account has no limits for so many replicas; set them there"),
        ErrorCode::MAXIMUM_STREAMS_LIMIT => refused("the account has as many streams as it may; raise `max_streams`"),
        ErrorCode::MAXIMUM_CONSUMERS_LIMIT => {
            refused("account or stream have as many consumers as they may; raise `max_consumers`")
        }
        ErrorCode::STREAM_STORE_FAILED if words.contains("maximum") => {
            refused("the stream is full and refuses more (`discard: new`); raise its bounds, or read and remove")
        }
        ErrorCode::STREAM_STORE_FAILED | ErrorCode::TEMP_STORAGE_FAILED => refused("it couldn't store it; see its log"),
        ErrorCode::STREAM_SEALED => refused("the stream is sealed; it takes nothing more"),
        ErrorCode::STREAM_TOO_MANY_REQUESTS => refused("it has too many requests waiting; send fewer at once"),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => {
            (ErrorKind::TooLarge, "the record is over the stream's `max_msg_size`; raise it there")
        }
        ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => (ErrorKind::TooLarge, "the headers are over 64 KiB; use fewer"),
        ErrorCode::CLUSTER_NOT_AVAILABLE
        | ErrorCode::CLUSTER_NOT_LEADER
        | ErrorCode::CLUSTER_NOT_ACTIVE
        | ErrorCode::CLUSTER_INCOMPLETE
        | ErrorCode::CLUSTER_NOT_ASSIGNED
        | ErrorCode::RAFT_GENERAL => {
            unavailable("too few servers of the cluster are there to decide; wait for the others")
        }
        ErrorCode::STREAM_OFFLINE | ErrorCode::CONSUMER_OFFLINE | ErrorCode::STREAM_OFFLINE_REASON => {
            unavailable("the stream is offline; see the server's log")
        }
        ErrorCode::STREAM_INVALID_CONFIG => refused("it doesn't take these settings; see the server's log"),
        _ => refused("it refused"),
    }
}

impl Complaint {
    /// Takes what follows `-ERR`. The server's own words may quote a subject, and with it a key, so none goes further.
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim().trim_matches('\'');
        let lower = text.to_ascii_lowercase();
        let quoted = || text.split('"').nth(1).unwrap_or_default().to_owned();
        let fatal = |kind, text: &str| Self::Fatal(Fault::new(kind, Outcome::NotApplied, text));
        if lower.starts_with("permissions violation for publish") {
            return Self::Publish(quoted());
        }
        if lower.starts_with("permissions violation for subscription") {
            return Self::Subscribe(quoted());
        }
        match &*lower {
            "maximum subscriptions exceeded" => Self::Subscriptions,
            "authorization violation" | "authentication timeout" | "invalid client protocol" => fatal(
                ErrorKind::Forbidden,
                "the server refused the user, the password, the token, the key or the certificate",
            ),
            "user authentication expired" | "account authentication expired" => {
                fatal(ErrorKind::Forbidden, "the credentials have expired; give new ones")
            }
            "user authentication revoked" => fatal(ErrorKind::Forbidden, "the credentials were revoked; give new ones"),
            "maximum connections exceeded" | "maximum account active connections exceeded" => {
                fatal(ErrorKind::Refused, "the server has as many connections as it takes; raise `max_connections`")
            }
            "secure connection - tls required" => {
                fatal(ErrorKind::Forbidden, "the server wants TLS; write `tls://` in the URL")
            }
            "maximum payload violation" => fatal(
                ErrorKind::TooLarge,
                "a message was larger than the server's `max_payload`, so it closed the connection",
            ),
            "slow consumer" | "slow consumer detected" => fatal(
                ErrorKind::Unavailable,
                "the server closed the connection, since what it sent wasn't read in time",
            ),
            "stale connection" => {
                fatal(ErrorKind::Unavailable, "the server closed the connection, since it heard no sign of life")
            }
            "server shutdown" => fatal(ErrorKind::Unavailable, "the server is shutting down"),
            _ if lower.contains("authentication") || lower.contains("authorization") => {
                fatal(ErrorKind::Forbidden, "the server refused the credentials")
            }
            _ if lower.contains("unknown protocol") || lower.contains("parser error") => {
                fatal(ErrorKind::Unavailable, "the server didn't understand the client")
            }
            _ => Self::Other,
        }
    }
}

fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn is_about_a_certificate(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        alert,
        Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired
    )
}

impl From<Fault> for BackendError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.kind, fault.outcome).with_source(&*fault.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_jetstream_has_a_kind_and_a_remedy() {
        for (code, kind) in [
            (10_023, ErrorKind::Refused),
            (10_039, ErrorKind::Unsupported),
            (10_047, ErrorKind::Refused),
            (10_054, ErrorKind::TooLarge),
            (10_059, ErrorKind::Absent),
            (10_060, ErrorKind::Absent),
            (10_065, ErrorKind::Conflict),
            (10_076, ErrorKind::Unsupported),
            (10_008, ErrorKind::Unavailable),
            (19_999, ErrorKind::Refused),
        ] {
            let fault = Fault::of_jetstream(ErrorCode(code), "");
            assert_eq!(fault.kind, kind, "{code}");
            assert!(fault.text.contains(&code.to_string()), "{}", fault.text);
        }
        assert!(Fault::of_jetstream(ErrorCode(10_077), "maximum messages exceeded").text.contains("full"));
    }

    #[test]
    fn a_right_that_lacks_is_named_without_a_key() {
        for (subject, named) in [
            ("$JS.API.STREAM.INFO.s", "`$JS.API.STREAM.INFO.s`"),
            ("$JS.API.CONSUMER.CREATE.s.m_x.shop.v1.hunter2.>", "`$JS.API.CONSUMER.CREATE.s.>`"),
            ("$JS.API.CONSUMER.MSG.NEXT.s.m_x", "`$JS.API.CONSUMER.MSG.NEXT.s.>`"),
            ("$JS.API.STREAM.NAMES", "`$JS.API.STREAM.NAMES`"),
            ("$JS.ACK.s.m_x.1.17.3.1700000000000000000.5", "`$JS.ACK.>`"),
            ("shop.prod.topic.orders.v1.hunter2", "`address()`"),
        ] {
            let said = Fault::no_right_to_publish(subject).text;
            assert!(said.contains(named) && !said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_complaint_is_read_without_its_words() {
        for (text, read) in [
            ("'Permissions Violation for Publish to \"a.b\"'", Complaint::Publish("a.b".to_owned())),
            ("'Permissions Violation for Subscription to \"a.>\"'", Complaint::Subscribe("a.>".to_owned())),
            (
                "'Permissions Violation for Subscription to \"a\" using queue \"q\"'",
                Complaint::Subscribe("a".to_owned()),
            ),
            ("'Permissions Violation for Publish'", Complaint::Publish(String::new())),
            ("'maximum subscriptions exceeded'", Complaint::Subscriptions),
            ("'Invalid Subject'", Complaint::Other),
            ("", Complaint::Other),
        ] {
            assert_eq!(Complaint::read(text), read);
        }
        for (text, kind) in [
            ("'Authorization Violation'", ErrorKind::Forbidden),
            ("'User Authentication Expired'", ErrorKind::Forbidden),
            ("'maximum connections exceeded'", ErrorKind::Refused),
            ("'Stale Connection'", ErrorKind::Unavailable),
        ] {
            let Complaint::Fatal(fault) = Complaint::read(text) else { panic!("`{text}` isn't fatal") };
            assert_eq!(fault.kind, kind, "{text}");
        }
    }
}
