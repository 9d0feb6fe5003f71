//! The books: what the events add up to. In a service this is the database.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings::{Delivery, HandlerError, Position};
use tidings_examples::Accounts;

use crate::entry::QuakeRecorded;

/// What all workers book into. Clones are the same books.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pages: Arc<Mutex<Pages>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// By network.
    pub(crate) accounts: Accounts,
    /// The ids of the messages that are booked.
    booked: HashSet<String>,
    /// By worker.
    pub(crate) shares: BTreeMap<&'static str, Share>,
    /// What a handler refused.
    pub(crate) refused: Vec<String>,
}

/// What one worker did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// Where the entries stand that it handled.
    pub(crate) handled: HashSet<Position>,
    pub(crate) booked: usize,
    /// How many deliveries weren't an entry's first. One that was given back before it was seen isn't counted.
    pub(crate) redelivered: usize,
    /// How many of those were booked already.
    pub(crate) repeated: usize,
}

impl Books {
    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books what was delivered, and returns how much this worker has booked.
    ///
    /// An ack group delivers at least once. So what was booked is written down with it, in one step (in a database: in
    /// one transaction), and what comes again adds nothing.
    pub(crate) fn book(&self, worker: &'static str, delivery: &Delivery<QuakeRecorded>) -> Result<usize, HandlerError> {
        let entry = delivery.value()?;
        if delivery.key()?.network != entry.network {
            return Err(format!("event `{}` came under another key than its own", entry.event).into());
        }
        // Not the position: what is appended again after the stream has forgotten its id stands elsewhere.
        let id = delivery.id().ok_or("a record has no id")?.to_string();
        let mut pages = self.pages();
        let pages = &mut *pages;
        let share = pages.shares.entry(worker).or_default();
        share.handled.insert(delivery.position());
        share.redelivered += usize::from(delivery.attempt() > 1);
        if pages.booked.insert(id) {
            share.booked += 1;
            pages.accounts.entry(entry.network.clone()).or_default().add(entry.hundredths);
        } else {
            share.repeated += 1;
        }
        Ok(share.booked)
    }
}

impl Pages {
    /// How many events are booked.
    pub(crate) fn booked(&self) -> usize {
        self.booked.len()
    }

    /// How many of these entries of one worker were handled by others.
    pub(crate) fn claimed(&self, left: &HashSet<Position>, from: &str) -> usize {
        let others = || self.shares.iter().filter(|(worker, _)| **worker != from);
        left.iter().filter(|position| others().any(|(_, share)| share.handled.contains(position))).count()
    }
}
