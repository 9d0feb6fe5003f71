//! The supervised subscription: it subscribes again after an interruption and tells the gap.

mod backoff;
mod ends;
mod policy;
mod run;
mod source;
mod stop;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Cause, Error, Whole};

pub(crate) use backoff::Backoff;
pub(crate) use ends::{Ends, Interruption, words};
pub use policy::SupervisePolicy;
pub use run::Supervise;
pub use stop::Stop;

/// One interruption after which delivery has resumed. Messages published between may be lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// The first cause. A first subscribe that failed counts as `Disconnected`.
    pub cause: Cause,
    /// What the backend said of it, without payload, key or credential.
    pub detail: Option<Arc<str>>,
    /// Attempts to subscribe that failed before the one that succeeded, the very first one included.
    pub attempts: u32,
    /// From the interruption until the new subscription was ready.
    pub lasted: Duration,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gap of {}: {}", Rounded(self.lasted), self.cause)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        match self.attempts {
            1 => f.write_str(", 1 failed attempt"),
            attempts => write!(f, ", {attempts} failed attempts"),
        }
    }
}

/// A time as people are told it, in whole milliseconds.
pub(crate) struct Rounded(pub(crate) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        write!(f, "{:?}", Duration::from_millis(millis))
    }
}

/// News of a supervision between its callbacks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A subscription is ready; the gap callback follows where there was an interruption.
    Ready,
    /// The subscription ended, for the reason that [`Error::cause`] names. Another is tried.
    Interrupted {
        /// The subscription's ending.
        error: &'a Error,
    },
    /// An attempt to subscribe failed. Another follows.
    Failed {
        /// Why.
        error: &'a Error,
        /// How many have failed since the interruption.
        attempts: u32,
    },
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Interrupted { error } => write!(f, "interrupted: {}", Whole(error)),
            Self::Failed { error, attempts } => write!(f, "attempt {attempts} failed: {}", Whole(error)),
        }
    }
}

/// How a supervision ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Its stop token was pulled.
    Stopped,
    /// The broker was closed.
    Closed,
}
