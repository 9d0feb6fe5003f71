use std::time::Duration;

/// How a supervision waits between attempts to subscribe again.
///
/// Each wait is uniform between half and all of a delay that starts at `initial`, doubles up to `max`, and starts over
/// once a subscription has lasted `stable_after` without interruption. So many supervisors spread out after one
/// outage, and a server that accepts and drops at once isn't hammered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SupervisePolicy {
    /// The first delay. Default 100 ms, 1 ms up to `max`.
    pub initial: Duration,
    /// The longest delay. Default 30 s, at most 10 min.
    pub max: Duration,
    /// How long a subscription must last before the delay starts over. Default 5 s, at most 10 min.
    pub stable_after: Duration,
}

const LONGEST: Duration = Duration::from_mins(10);

impl Default for SupervisePolicy {
    fn default() -> Self {
        Self { initial: Duration::from_millis(100), max: Duration::from_secs(30), stable_after: Duration::from_secs(5) }
    }
}

impl SupervisePolicy {
    /// Sets the first delay.
    #[must_use]
    pub fn initial(mut self, initial: Duration) -> Self {
        self.initial = initial;
        self
    }

    /// Sets the longest delay.
    #[must_use]
    pub fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// Sets how long a subscription must last before the delay starts over.
    #[must_use]
    pub fn stable_after(mut self, stable_after: Duration) -> Self {
        self.stable_after = stable_after;
        self
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.initial < Duration::from_millis(1) || self.initial > self.max {
            problems.push(format!("`initial` is {:?}; give 1 ms up to `max`, {:?}", self.initial, self.max));
        }
        if self.max > LONGEST {
            problems.push(format!("`max` is {:?}; give at most {LONGEST:?}", self.max));
        }
        if self.stable_after > LONGEST {
            problems.push(format!("`stable_after` is {:?}; give at most {LONGEST:?}", self.stable_after));
        }
        problems
    }
}
