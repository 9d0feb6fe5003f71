//! What became of each delivery, as those who handled it saw it.

use std::collections::BTreeMap;

use tidings_examples::Accounts;

/// What one owner of a durable did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// How many deliveries there were of each attempt.
    pub(crate) attempts: BTreeMap<u32, u64>,
    pub(crate) acknowledged: u64,
    /// Refused for now, with a delay.
    pub(crate) delayed: u64,
    /// Refused for ever, by reason.
    pub(crate) terminated: BTreeMap<&'static str, u64>,
    /// How often a delivery that took long was kept alive.
    pub(crate) kept_alive: u64,
    /// What the acknowledged events add up to.
    pub(crate) accounts: Accounts,
}

impl Tally {
    pub(crate) fn deliver(&mut self, attempt: u32) {
        *self.attempts.entry(attempt).or_default() += 1;
    }

    pub(crate) fn acknowledge(&mut self, network: &str, hundredths: Option<i64>) {
        self.acknowledged += 1;
        self.accounts.entry(network.to_owned()).or_default().add(hundredths);
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.attempts.values().sum()
    }

    pub(crate) fn all_terminated(&self) -> u64 {
        self.terminated.values().sum()
    }
}
