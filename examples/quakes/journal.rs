//! The state behind the events. In a service this is the database: first it is written there, then it is published.

use std::sync::{Arc, Mutex, PoisonError};

use crate::quake::QuakeReported;

/// Every event so far, in the order of publishing. Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    entries: Arc<Mutex<Vec<QuakeReported>>>,
}

impl Journal {
    /// Records events in order, giving each its sequence.
    pub(crate) fn record(&self, quakes: &mut [QuakeReported]) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for (quake, sequence) in quakes.iter_mut().zip(entries.len() as u64..) {
            quake.sequence = sequence;
            entries.push(quake.clone());
        }
    }

    /// Reads the events from a sequence on, and the sequence that the next one will have.
    pub(crate) fn since(&self, sequence: u64) -> (Vec<QuakeReported>, u64) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let new = entries.iter().filter(|quake| quake.sequence >= sequence).cloned().collect();
        (new, entries.len() as u64)
    }

    /// Returns the sequence of the last event that matches.
    pub(crate) fn last(&self, matches: impl Fn(&QuakeReported) -> bool) -> Option<u64> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().rev().find(|quake| matches(quake)).map(|quake| quake.sequence)
    }
}
