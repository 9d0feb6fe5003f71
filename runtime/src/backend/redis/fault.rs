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
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, outcome: Outcome, text: impl Into<Arc<str>>) -> Self {
        Self { kind, outcome, text: text.into(), moved: None, unfit: false }
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
        let code = error.code();
        if code == "NOPERM" {
            return Self::new(ErrorKind::Forbidden, Outcome::NotApplied, no_right(command));
        }
        let meaning = match code {
            "NOAUTH" => "it wants a user or a password; put them into the URL",
            "WRONGPASS" => "user or password is wrong",
            "OOM" => "its memory is full",
            "READONLY" => "it is a replica; connect to the primary",
            "LOADING" => "it is loading its data",
            "MASTERDOWN" => "it is a replica without its primary",
            "BUSY" => "it runs a script",
            "CLUSTERDOWN" => "the cluster isn't complete",
            "MOVED" | "ASK" => "another node has the slot; use `RedisCluster` for a cluster",
            "TRYAGAIN" => "the slot is on its way to another node",
            "CROSSSLOT" => "the channels are in several slots",
            "NOPROTO" => "it doesn't speak RESP3; use Redis 7.0 or later, or Valkey",
            "ERR" if command == "SELECT" => "it has no database of that number",
            "ERR" if command == "CLUSTER SLOTS" => "it isn't a cluster's node; use `Redis` for a single server",
            _ => "it refused the command",
        };
        // A code is a word of the server's; anything else is its text in place of one.
        let shown = if code.len() <= 32 && code.bytes().all(|byte| byte.is_ascii_uppercase()) { code } else { "ERR" };
        let forbidden = matches!(code, "NOAUTH" | "WRONGPASS") || command == "SELECT" && code == "ERR";
        let kind = if forbidden { ErrorKind::Forbidden } else { ErrorKind::Refused };
        let text = format!("the server answered `{shown}` to {command}: {meaning}");
        let mut fault = Self::new(kind, Outcome::NotApplied, text);
        fault.unfit = matches!(code, "READONLY" | "MASTERDOWN");
        if code == "MOVED" {
            let named = error.details().and_then(|details| details.split_once(' '));
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

    pub(super) fn unresolved() -> Self {
        Self::unreachable("the host's name doesn't resolve")
    }

    /// A connection that didn't come about.
    pub(super) fn connect(error: &io::Error, endpoint: &Endpoint) -> Self {
        match (error.kind(), endpoint) {
            (io::ErrorKind::NotFound, Endpoint::Unix(_)) => Self::unreachable("no such socket"),
            (kind, _) => Self::unreachable(format!("couldn't connect: {kind}")),
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
