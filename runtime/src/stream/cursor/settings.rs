use std::fmt;
use std::time::Duration;

use crate::address::{NameError, is_word};
use crate::key::{KeyWriter, PrefixOf, TopicKey};
use crate::stream::{Positions, Start};

/// Who a durable belongs to. It outlives the process: whoever binds the same owner's durable goes on where it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DurableOwner(String);

const MAX_ID_BYTES: usize = 63;

impl DurableOwner {
    /// Names an agent, `[a-z0-9][a-z0-9_-]{0,62}`. Its durable is `c_{id}`.
    ///
    /// # Errors
    ///
    /// [`NameError`] for an id outside of that.
    pub fn agent(id: &str) -> Result<Self, NameError> {
        Self::of('c', id)
    }

    /// Names a module of a service, `[a-z0-9][a-z0-9_-]{0,62}`. Its durable is `m_{id}`.
    ///
    /// # Errors
    ///
    /// [`NameError`] for an id outside of that.
    pub fn module(id: &str) -> Result<Self, NameError> {
        Self::of('m', id)
    }

    fn of(kind: char, id: &str) -> Result<Self, NameError> {
        if is_word(id, MAX_ID_BYTES, b"-_") {
            Ok(Self(format!("{kind}_{id}")))
        } else {
            Err(NameError::new("owner", id, "must match `[a-z0-9][a-z0-9_-]{0,62}`"))
        }
    }

    /// Returns the durable's name.
    #[must_use]
    pub fn durable(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DurableOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a durable hands out its deliveries. The settings are the durable's own, kept by the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableSettings {
    /// Where it begins. Default: at the first record. It counts when the durable is created, and never after.
    pub start: Start,
    /// Deliveries that may be unsettled at a time, over everyone who is bound; 1 to 65,536. Default 1, which is what a
    /// cursor needs. A worker needs at least its concurrency.
    pub in_flight: u32,
    /// How long a delivery may stay unsettled before it comes again, 100 ms to 24 h. Default 30 s.
    pub ack_wait: Duration,
    /// How often a record is handed out at most, 1 to 1,000,000. Default: for ever. After that it is told as exhausted and
    /// never comes again. Every delivery counts, also one that a worker gave back because it was stopped.
    pub max_deliver: Option<u32>,
    /// The ack wait of each attempt, the last one's for all that follow; at most 64, and no more than `max_deliver`. Default:
    /// none. It stands in the place of `ack_wait`, so give one of the two.
    pub backoff: Vec<Duration>,
    /// The key prefix of the records that it hands out, as text. Default: none, and it hands out all. Under a prefix nothing
    /// tells of records that were removed before they were handed out.
    pub prefix: Option<String>,
}

/// The ack wait where none is given.
const ACK_WAIT: Duration = Duration::from_secs(30);

impl Default for DurableSettings {
    fn default() -> Self {
        Self {
            start: Start::Earliest,
            in_flight: 1,
            ack_wait: ACK_WAIT,
            max_deliver: None,
            backoff: Vec::new(),
            prefix: None,
        }
    }
}

impl DurableSettings {
    /// Starts with one delivery in flight, 30 s to settle it, and attempts without end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets where the durable begins.
    #[must_use]
    pub fn start(mut self, start: impl Into<Start>) -> Self {
        self.start = start.into();
        self
    }

    /// Sets how many deliveries may be unsettled at a time.
    #[must_use]
    pub fn in_flight(mut self, deliveries: u32) -> Self {
        self.in_flight = deliveries;
        self
    }

    /// Sets how long a delivery may stay unsettled.
    #[must_use]
    pub fn ack_wait(mut self, wait: Duration) -> Self {
        self.ack_wait = wait;
        self
    }

    /// Sets how often a record is handed out at most.
    #[must_use]
    pub fn max_deliver(mut self, attempts: u32) -> Self {
        self.max_deliver = Some(attempts);
        self
    }

    /// Sets the ack wait of each attempt.
    #[must_use]
    pub fn backoff(mut self, waits: impl IntoIterator<Item = Duration>) -> Self {
        self.backoff = waits.into_iter().collect();
        self
    }

    /// Hands out only the records whose key begins with these parts and goes on after them: `under::<OrderKey>(("eu",))`.
    #[must_use]
    // As `subscribe_under` takes it.
    #[allow(clippy::needless_pass_by_value)]
    pub fn under<K: TopicKey>(mut self, prefix: impl PrefixOf<K::Parts>) -> Self {
        let mut text = String::new();
        prefix.write_prefix(&mut KeyWriter::new(&mut text));
        // Each segment begins with a dot, which joins it to what stands before.
        self.prefix = Some(text.split_off(1.min(text.len())));
        self
    }

    /// Returns how long an attempt may stay unsettled.
    #[must_use]
    pub fn wait_of(&self, attempt: u32) -> Duration {
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        self.backoff.get(index).or(self.backoff.last()).copied().unwrap_or(self.ack_wait)
    }

    /// Returns the shortest time that any attempt may stay unsettled.
    pub(crate) fn shortest_wait(&self) -> Duration {
        self.backoff.iter().min().copied().unwrap_or(self.ack_wait)
    }

    /// Says what a durable that is there with these settings has otherwise than is asked for. Where it begins doesn't count.
    pub(crate) fn unlike(&self, asked: &Self) -> Option<String> {
        let mut differences = Vec::new();
        let mut differs = |what: &str, has: String, asked: String| {
            if has != asked {
                differences.push(format!("`{what}` is {has} there and {asked} here"));
            }
        };
        let attempts = |most: Option<u32>| most.map_or_else(|| "not set".to_owned(), |most| most.to_string());
        let waits = |waits: &[Duration]| if waits.is_empty() { "not set".to_owned() } else { format!("{waits:?}") };
        differs("in_flight", self.in_flight.to_string(), asked.in_flight.to_string());
        differs("ack_wait", format!("{:?}", self.ack_wait), format!("{:?}", asked.ack_wait));
        differs("max_deliver", attempts(self.max_deliver), attempts(asked.max_deliver));
        differs("backoff", waits(&self.backoff), waits(&asked.backoff));
        if self.prefix != asked.prefix {
            // A prefix is of keys, which no error tells.
            differences.push("it hands out what is under another prefix".to_owned());
        }
        let differences = differences.join(", ");
        (!differences.is_empty())
            .then(|| format!("the durable is there otherwise: {differences}; ask for that, or `update` it"))
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let waits = Duration::from_millis(100)..=Duration::from_hours(24);
        let mut problems = Vec::new();
        if !(1..=65_536).contains(&self.in_flight) {
            problems.push(format!("`in_flight` is {}; give 1 to 65536", self.in_flight));
        }
        if !waits.contains(&self.ack_wait) {
            problems.push(format!("`ack_wait` is {:?}; give 100 ms to 24 h", self.ack_wait));
        }
        if let Some(attempts) = self.max_deliver
            && !(1..=1_000_000).contains(&attempts)
        {
            problems.push(format!(
                "`max_deliver` is {attempts}; give 1 to 1000000, or leave it out for attempts without end"
            ));
        }
        if self.backoff.len() > 64 {
            problems.push(format!("`backoff` has {} entries; give at most 64", self.backoff.len()));
        }
        if let Some(wrong) = self.backoff.iter().find(|wait| !waits.contains(*wait)) {
            problems.push(format!("`backoff` has an entry of {wrong:?}; give 100 ms to 24 h"));
        }
        if let Some(most) = self.max_deliver
            && self.backoff.len() as u64 > u64::from(most)
        {
            let entries = self.backoff.len();
            problems
                .push(format!("`backoff` has {entries} entries for a `max_deliver` of {most}; give at most as many"));
        }
        if !self.backoff.is_empty() && self.ack_wait != ACK_WAIT {
            problems.push("`backoff` stands in the place of `ack_wait`; give one of the two".to_owned());
        }
        problems
    }
}

/// How a durable is set up, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableInfo {
    /// Its settings. Of the start only what the backend keeps.
    pub settings: DurableSettings,
    /// Records that it has to hand out and hasn't, ever.
    pub waiting: u64,
    /// Deliveries that aren't settled, those that wait for their next attempt among them.
    pub in_flight: u64,
    /// The highest position of each partition up to which everything is settled; none where nothing is.
    pub settled: Positions,
}

impl DurableInfo {
    /// Makes an info, as a backend does.
    #[must_use]
    pub const fn new(settings: DurableSettings, waiting: u64, in_flight: u64, settled: Positions) -> Self {
        Self { settings, waiting, in_flight, settled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_names_its_durable() {
        assert_eq!(DurableOwner::agent("a-1").unwrap().durable(), "c_a-1");
        assert_eq!(DurableOwner::module("billing").unwrap().durable(), "m_billing");
        assert!(DurableOwner::agent(&"a".repeat(63)).is_ok());
        for wrong in ["", "A", "-a", "a.b", "a b", &"a".repeat(64)] {
            let refused = DurableOwner::agent(wrong).unwrap_err().to_string();
            assert!(refused.contains("must match"), "{refused}");
        }
        let refused = crate::Error::from(DurableOwner::module("A").unwrap_err());
        assert_eq!(refused.kind(), crate::ErrorKind::Invalid);
        assert_eq!(refused.to_string(), "build: invalid; owner `A` must match `[a-z0-9][a-z0-9_-]{0,62}`");
    }

    #[test]
    fn settings_out_of_their_bounds_are_told_all_at_once() {
        let second = Duration::from_secs(1);
        assert_eq!(DurableSettings::new().problems(), [""; 0]);
        assert_eq!(DurableSettings::new().backoff([second, second * 30]).max_deliver(2).problems(), [""; 0]);
        let wrong = DurableSettings::new()
            .in_flight(0)
            .ack_wait(Duration::ZERO)
            .max_deliver(1)
            .backoff([second, Duration::ZERO]);
        assert_eq!(wrong.problems().len(), 5, "{:?}", wrong.problems());
        assert_eq!(DurableSettings::new().backoff(vec![second; 65]).problems().len(), 1);
        assert_eq!(DurableSettings::new().max_deliver(0).problems().len(), 1);
    }

    #[test]
    fn an_attempt_waits_as_the_backoff_says() {
        let second = Duration::from_secs(1);
        let waits = DurableSettings::new().backoff([second * 2, second, second * 5]);
        assert_eq!([1, 2, 3, 4, 99].map(|attempt| waits.wait_of(attempt)), [2, 1, 5, 5, 5].map(|n| second * n));
        assert_eq!(waits.shortest_wait(), second);
        assert_eq!(DurableSettings::new().wait_of(7), ACK_WAIT);
    }

    #[test]
    fn what_is_otherwise_is_named_but_no_key() {
        let there = DurableSettings::new().max_deliver(3);
        assert_eq!(there.unlike(&there.clone().start(Start::Latest)), None);
        let mut asked = DurableSettings::new().in_flight(4).ack_wait(Duration::from_secs(5));
        asked.prefix = Some("secret".to_owned());
        let said = there.unlike(&asked).unwrap();
        for part in [
            "`in_flight` is 1 there and 4 here",
            "`ack_wait` is 30s there and 5s here",
            "`max_deliver` is 3 there and not set here",
            "another prefix",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("secret") && !said.contains("backoff"), "{said}");
    }
}
