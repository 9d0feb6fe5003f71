use std::time::Duration;

use crate::topic::SupervisePolicy;

/// The bounds of a worker, each set by the worker's method of the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) read_ahead: usize,
    pub(super) read_ahead_bytes: usize,
    pub(super) deadline: Duration,
    pub(super) claim_after: Duration,
    pub(super) drain: Duration,
    pub(super) paused_keys: usize,
    pub(super) uncommitted: usize,
    pub(super) retry_first: Duration,
    pub(super) retry_most: Duration,
    pub(super) backoff: SupervisePolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 1,
            read_ahead: 256,
            read_ahead_bytes: 4 << 20,
            deadline: Duration::from_secs(30),
            claim_after: Duration::from_mins(1),
            drain: Duration::from_secs(30),
            paused_keys: 1_024,
            uncommitted: 10_000,
            retry_first: Duration::from_secs(1),
            retry_most: Duration::from_mins(1),
            backoff: SupervisePolicy::default(),
        }
    }
}

impl Settings {
    pub(super) fn problems(&self) -> Vec<String> {
        let day = Duration::from_hours(24);
        let least = Duration::from_millis(1);
        let counts = [
            ("concurrency", self.concurrency, 1_024),
            ("read_ahead", self.read_ahead, 65_536),
            ("read_ahead_bytes", self.read_ahead_bytes, 1 << 30),
            ("paused_keys", self.paused_keys, 65_536),
            ("uncommitted", self.uncommitted, 1_000_000),
        ];
        let times = [
            ("deadline", self.deadline, least),
            ("claim_after", self.claim_after, Duration::from_millis(30)),
            ("drain", self.drain, least),
        ];
        let counts = counts
            .into_iter()
            .filter(|(_, value, most)| !(1..=*most).contains(value))
            .map(|(name, value, most)| format!("`{name}` is {value}; give 1 to {most}"));
        let times = times
            .into_iter()
            .filter(|(_, value, least)| value < least || *value > day)
            .map(|(name, value, least)| format!("`{name}` is {value:?}; give {least:?} to 24 h"));
        let (first, most) = (self.retry_first, self.retry_most);
        let retry = (first < least || first > most || most > day).then(|| {
            format!("`retry_after` is {first:?} to {most:?}; give 1 ms to 24 h, the first not above the other")
        });
        counts.chain(times).chain(self.backoff.problems()).chain(retry).collect()
    }
}
