//! Everything that a close waits for, by name: tasks, callbacks and subscriptions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// What kind of thing is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracked {
    Task,
    Callback,
    SettingUp,
    Live,
    Draining,
}

impl Tracked {
    pub(crate) const ALL: [Self; 5] = [Self::Task, Self::Callback, Self::SettingUp, Self::Live, Self::Draining];
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    counts: [usize; Tracked::ALL.len()],
    running: BTreeMap<u64, (Tracked, String)>,
}

#[derive(Debug, Default)]
pub(crate) struct Tracker {
    entries: Mutex<Entries>,
    changed: Notify,
}

impl Tracker {
    fn entries(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, tracked: Tracked, name: impl Into<String>) -> Entry {
        self.add(&mut self.entries(), tracked, name.into())
    }

    /// Adds a subscription that is being set up, unless `most` of them are there in any state.
    pub(crate) fn enter_subscription(self: &Arc<Self>, name: impl Into<String>, most: usize) -> Option<Entry> {
        let mut entries = self.entries();
        let taken =
            [Tracked::SettingUp, Tracked::Live, Tracked::Draining].map(|tracked| entries.counts[tracked as usize]);
        (taken.iter().sum::<usize>() < most).then(|| self.add(&mut entries, Tracked::SettingUp, name.into()))
    }

    fn add(self: &Arc<Self>, entries: &mut Entries, tracked: Tracked, name: String) -> Entry {
        let id = entries.next;
        entries.next += 1;
        entries.counts[tracked as usize] += 1;
        entries.running.insert(id, (tracked, name));
        Entry { tracker: self.clone(), id }
    }

    pub(crate) fn count(&self, wanted: Tracked) -> usize {
        self.entries().counts[wanted as usize]
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().running.values().map(|(_, name)| name.clone()).collect()
    }

    /// Waits until nothing of these kinds is left.
    pub(crate) async fn none_left(&self, kinds: &[Tracked]) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if kinds.iter().all(|tracked| self.count(*tracked) == 0) {
                return;
            }
            changed.await;
        }
    }
}

/// One running thing; dropping it says that it has exited.
#[derive(Debug)]
pub(crate) struct Entry {
    tracker: Arc<Tracker>,
    id: u64,
}

impl Entry {
    pub(crate) fn becomes(&self, tracked: Tracked) {
        let mut entries = self.tracker.entries();
        let Entries { counts, running, .. } = &mut *entries;
        if let Some(entry) = running.get_mut(&self.id) {
            counts[entry.0 as usize] -= 1;
            counts[tracked as usize] += 1;
            entry.0 = tracked;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut entries = self.tracker.entries();
        if let Some((tracked, _)) = entries.running.remove(&self.id) {
            entries.counts[tracked as usize] -= 1;
        }
        drop(entries);
        self.tracker.changed.notify_waiters();
    }
}
