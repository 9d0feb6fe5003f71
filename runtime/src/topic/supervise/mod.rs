//! The supervised subscription: it subscribes again after an interruption and tells the gap.

mod backoff;
mod policy;
mod run;
mod source;
mod stop;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Cause;

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
    /// Attempts to subscribe again that failed before the one that succeeded.
    pub attempts: u32,
    /// From the interruption until the new subscription was ready.
    pub lasted: Duration,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gap of {:?}: {}", self.lasted, self.cause)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        write!(f, ", {} failed attempts", self.attempts)
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
