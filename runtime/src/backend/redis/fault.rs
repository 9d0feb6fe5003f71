//! What can go wrong, in words that hold no payload, key or credential.

use std::io;
use std::sync::Arc;

use redis::ServerError;

use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// A failure that several callers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) outcome: Outcome,
    pub(super) text: Arc<str>,
    /// The node that a cluster named in its refusal.
    pub(super) moved: Option<Arc<str>>,
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

    /// What a server answered instead of doing it. Its own words may quote a command's arguments, so only the code is
    /// kept.
    pub(super) fn refusal(error: &ServerError) -> Self {
        let code = error.code();
        let meaning = match code {
            "NOPERM" => "the user lacks the right; grant it the command and the channel",
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
            _ => "it refused the command",
        };
        // A code is a word of the server's; anything else is its text in place of one.
        let shown = if code.len() <= 32 && code.bytes().all(|byte| byte.is_ascii_uppercase()) { code } else { "ERR" };
        let mut fault =
            Self::new(ErrorKind::Refused, Outcome::NotApplied, format!("the server answered `{shown}`: {meaning}"));
        fault.unfit = matches!(code, "READONLY" | "MASTERDOWN");
        if code == "MOVED" {
            fault.moved = error.details().and_then(|details| details.split(' ').nth(1)).map(Into::into);
        }
        fault
    }

    /// A broken connection, by its kind: the system's text may hold an address.
    pub(super) fn io(error: &io::Error) -> Self {
        Self::unreachable(describe(error))
    }

    pub(super) fn malformed() -> Self {
        Self::unreachable("the server sent what isn't RESP3")
    }
}

impl From<Fault> for BackendError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.kind, fault.outcome).with_source(&*fault.text)
    }
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
