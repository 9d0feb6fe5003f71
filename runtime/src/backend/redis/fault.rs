//! What can go wrong, in words that hold no payload, key or credential.

use std::io;
use std::sync::Arc;

use redis::ServerError;

use super::url::Endpoint;
use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// A failure that several callers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) outcome: Outcome,
    pub(super) text: Arc<str>,
    /// The slot and the node that a cluster named in its refusal.
    pub(super) moved: Option<(u16, Arc<str>)>,
    /// Whether another connection may find a server that doesn't refuse.
    pub(super) unfit: bool,
    /// The server's own word for its refusal, where that matters to who asked.
    pub(super) code: Option<Code>,
}

/// A refusal that is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// `NOSCRIPT`
    UnknownScript,
    /// `BUSYGROUP`
    GroupExists,
    /// `CLUSTERDOWN`
    ClusterDown,
    /// `OOM`
    Full,
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, outcome: Outcome, text: impl Into<Arc<str>>) -> Self {
        Self { kind, outcome, text: text.into(), moved: None, unfit: false, code: None }
    }

    /// The server can't be reached; nothing was sent.
    pub(super) fn unreachable(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unavailable, Outcome::NotApplied, text)
    }

    pub(super) fn closed(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Closed, outcome, "the broker was closed")
    }

    pub(super) fn timeout(outcome: Outcome) -> Self {
        Self::new(ErrorKind::Timeout, outcome, "the server didn't answer within the timeout")
    }

    /// The same for a caller whose command had been sent.
    pub(super) fn sent(&self) -> Self {
        Self { outcome: Outcome::Unknown, ..self.clone() }
    }

    /// What a server answered to a command instead of doing it. Its own words may quote the command's arguments, so
    /// only the code is kept.
    pub(super) fn refusal(error: &ServerError, command: &str) -> Self {
        Self::refused_by(error.code(), error.details().unwrap_or_default(), command)
    }

    /// The same of a reply that is an error.
    pub(super) fn refused(reply: &[u8], command: &str) -> Self {
        let text = String::from_utf8_lossy(reply);
        // `!21` and a line of its own, or `-` and the text.
        let text = if reply.first() == Some(&b'!') {
            text.split_once("\r\n").map_or("", |(_, text)| text)
        } else {
            &text[1..]
        };
        let (code, details) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
        Self::refused_by(code, details, command)
    }

    fn refused_by(code: &str, details: &str, command: &str) -> Self {
        // What a transaction's end is refused for.
        let inner = details.strip_prefix("Transaction discarded because of: ").filter(|_| code == "EXECABORT");
        if let Some((code, details)) = inner.and_then(|inner| inner.split_once(' ')) {
            return Self::refused_by(code, details, command);
        }
        if code == "NOPERM" {
            return Self::new(ErrorKind::Forbidden, Outcome::NotApplied, no_right(command));
        }
        let (kind, meaning) = meaning(code, details, command);
        // A code is a word of the server's; anything else is its text in place of one.
        let shown = if code.len() <= 32 && code.bytes().all(|byte| byte.is_ascii_uppercase()) { code } else { "ERR" };
        let text = format!("the server answered `{shown}` to {command}: {meaning}");
        // A script that failed midway has done what stood before.
        let midway = command.starts_with("EVAL") && code == "ERR" && kind != ErrorKind::Exhausted;
        let mut fault = Self::new(kind, if midway { Outcome::Unknown } else { Outcome::NotApplied }, text);
        fault.unfit = matches!(code, "READONLY" | "MASTERDOWN");
        fault.code = match code {
            "NOSCRIPT" => Some(Code::UnknownScript),
            "BUSYGROUP" => Some(Code::GroupExists),
            "CLUSTERDOWN" => Some(Code::ClusterDown),
            "OOM" => Some(Code::Full),
            _ => None,
        };
        if code == "MOVED" {
            let named = details.split_once(' ');
            fault.moved = named.and_then(|(slot, node)| Some((slot.parse().ok()?, node.into())));
        }
        fault
    }

    /// A broken connection, by its kind: the system's text may hold an address.
    pub(super) fn io(error: &io::Error) -> Self {
        Self::unreachable(describe(error))
    }

    pub(super) fn malformed() -> Self {
        Self::unreachable("the server sent what isn't RESP3; is it Redis at all?")
    }

    pub(super) fn oversized() -> Self {
        Self::unreachable("the server's reply is longer than 1 GiB; ask for less at once")
    }

    pub(super) fn unresolved() -> Self {
        Self::unreachable("the host's name doesn't resolve")
    }

    /// A connection that didn't come about. A host is told only here, where its name has been resolved: what doesn't
    /// resolve may be a password at the wrong place.
    pub(super) fn connect(error: &io::Error, endpoint: &Endpoint) -> Self {
        match (error.kind(), endpoint) {
            (io::ErrorKind::NotFound, Endpoint::Unix(_)) => Self::unreachable(format!("no such socket: {endpoint}")),
            (kind, _) => Self::unreachable(format!("couldn't connect to {endpoint}: {kind}")),
        }
    }

    pub(super) fn handshake(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
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

    pub(super) fn handshake_timeout() -> Self {
        let text = "the TLS handshake didn't finish in time; does the port speak TLS?";
        Self::new(ErrorKind::Timeout, Outcome::NotApplied, text)
    }
}

/// What a refusal means, and its kind.
fn meaning(code: &str, details: &str, command: &str) -> (ErrorKind, &'static str) {
    let refused = |meaning| (ErrorKind::Refused, meaning);
    match code {
        "NOAUTH" => (ErrorKind::Forbidden, "it wants a user or a password; put them into the URL"),
        "WRONGPASS" => (ErrorKind::Forbidden, "the user or the password in the URL is wrong"),
        "OOM" => refused("its memory is full; raise `maxmemory`, or keep less by `max_len` or `trim_acknowledged`"),
        "READONLY" => refused("it is a replica; connect to the primary"),
        "LOADING" => refused("it is loading its data"),
        "MASTERDOWN" => refused("it is a replica without its primary"),
        "BUSY" => refused("it runs a script"),
        "CLUSTERDOWN" => refused("the cluster isn't complete"),
        "MOVED" | "ASK" => refused("another node has the slot; use `RedisCluster` for a cluster"),
        "TRYAGAIN" => refused("the slot is on its way to another node"),
        "CROSSSLOT" => refused("the names are in several slots; use `RedisCluster` for a cluster"),
        "NOREPLICAS" => refused("it has too few replicas in step"),
        "NOPROTO" => refused("it doesn't speak RESP3; use Redis 7.0 or later, or Valkey"),
        "WRONGTYPE" => (ErrorKind::Conflict, "the key holds something else; remove it, or take another address"),
        "NOGROUP" => (ErrorKind::Absent, "the group or its stream isn't there; `ensure` creates it"),
        "UNBLOCKED" => (ErrorKind::Absent, "the stream was removed while it was waited for; `ensure` creates it"),
        "ERR" if details.contains("no such key") || details.contains("requires the key to exist") => {
            (ErrorKind::Absent, "the stream isn't there; `ensure` creates it")
        }
        "ERR" if details.contains("exhausted the last possible ID") || details.contains("equal or smaller") => {
            (ErrorKind::Exhausted, "the stream's last id is the last there can be; start another stream")
        }
        "ERR" if details.contains("ACL failure in script") || details.contains("user executing the script") => {
            (ErrorKind::Forbidden, "the user may not do what the script does; `Broker::check` tells what to grant")
        }
        "ERR" if command == "SELECT" => (ErrorKind::Forbidden, "it has no database of that number"),
        "ERR" if command == "CLUSTER SLOTS" => refused("it isn't a cluster's node; use `Redis` for a single server"),
        "ERR" if command == "WAITAOF" => {
            (ErrorKind::Unsupported, "it has no append-only file or is older than Redis 7.2; switch `appendonly` on")
        }
        _ => refused("it refused the command"),
    }
}

impl From<Fault> for BackendError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.kind, fault.outcome).with_source(&*fault.text)
    }
}

/// Says that a command needs a right, and which. A right to a channel may be what is missing, too.
fn no_right(command: &str) -> String {
    let right = command.to_lowercase().replace(' ', "|");
    let channel = match command {
        "PUBLISH" | "SPUBLISH" | "SUBSCRIBE" | "SSUBSCRIBE" => " and the channel",
        // Redis compares the two as texts.
        "PSUBSCRIBE" => " and the very pattern (each prefix needs its own `&address.prefix.*`, or `allchannels`)",
        _ if command.starts_with('X') || command.starts_with("EVAL") => " and the key",
        _ => "",
    };
    format!("the server answered NOPERM to {command}; grant `+{right}`{channel}")
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed the connection".into(),
        io::ErrorKind::InvalidData => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            // A certificate's refusal names what is wrong with it, and no secret.
            Some(refused) => format!("TLS failed: {refused}"),
            None => "the connection broke: invalid data".into(),
        },
        kind => format!("the connection broke: {kind}"),
    }
}
