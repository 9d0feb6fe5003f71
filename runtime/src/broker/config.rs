use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::Limits;
use crate::address::Namespace;

/// A source of random 64-bit numbers, for jitter.
pub(crate) type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The wall clock.
pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// What a broker is built from: its namespace, its limits, its source of randomness and its clock.
#[derive(Clone)]
pub struct Config {
    pub(crate) namespace: Namespace,
    pub(crate) limits: Limits,
    pub(crate) random: Random,
    pub(crate) clock: Clock,
}

impl Config {
    /// Starts from a namespace, with every limit at its default.
    #[must_use]
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, limits: Limits::default(), random: Arc::new(system_random), clock: Arc::new(system_clock) }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets where jitter and generated ids come from, so that a test can fix it. Every call should give a fresh uniform number.
    #[must_use]
    pub fn random(mut self, random: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(random);
        self
    }
}

impl Config {
    /// Sets the wall clock by which records are stamped, so that a test can fix it. Waiting goes by tokio's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("namespace", &self.namespace)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The standard library seeds every `RandomState` from the system's randomness; jitter and ids need no more.
fn system_random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[allow(clippy::disallowed_methods, reason = "the one clock of the crate, taken as an argument elsewhere")]
fn system_clock() -> SystemTime {
    SystemTime::now()
}
