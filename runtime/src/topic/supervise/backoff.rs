use std::time::Duration;

use super::SupervisePolicy;

/// The delay before the next attempt.
pub(crate) struct Backoff {
    policy: SupervisePolicy,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(policy: SupervisePolicy) -> Self {
        Self { policy, next: policy.initial }
    }

    pub(crate) fn start_over(&mut self) {
        self.next = self.policy.initial;
    }

    /// Returns a wait uniform in [d/2, d] and doubles d up to the bound.
    pub(crate) fn wait(&mut self, random: u64) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.policy.max);
        let half = delay / 2;
        // The policy is bounded by 10 min, so nanoseconds fit; the product takes 128 bits.
        let spread = delay.saturating_sub(half).as_nanos() * u128::from(random) / u128::from(u64::MAX);
        half + Duration::from_nanos(u64::try_from(spread).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_bound_and_lie_between_half_and_all() {
        let mut low = Backoff::new(SupervisePolicy::default());
        let mut high = Backoff::new(SupervisePolicy::default());
        let mut delay = Duration::from_millis(100);
        for _ in 0..2_000 {
            assert_eq!(low.wait(0), delay / 2);
            assert_eq!(high.wait(u64::MAX), delay);
            delay = (delay * 2).min(Duration::from_secs(30));
        }
        high.start_over();
        assert_eq!(high.wait(u64::MAX), Duration::from_millis(100));
    }

    #[test]
    fn randomness_spreads_the_first_wait_over_its_window() {
        let step = u64::MAX / 100;
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|i| Backoff::new(SupervisePolicy::default()).wait(i * step)).collect();
        assert_eq!(waits.len(), 100);
    }
}
