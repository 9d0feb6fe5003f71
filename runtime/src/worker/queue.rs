use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::lanes::{Lanes, lane_of};
use crate::broker::lock;
use crate::capability::Stored;
use crate::error::Error;
use crate::stream::{Position, Positions};
use crate::topic::Stop;

/// What became of a delivery in its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is to be settled.
    Handled,
    /// It stays as it is.
    Unsettled,
    /// It is to come again after so long.
    Again(Duration),
}

/// What the worker's parts share: deliveries on their way from the reader through the slots to the settler.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when there is something for a slot, and when slots are to look whether they should end.
    work: Notify,
    /// Told when there is something to settle, or the last slot has ended.
    settle: Notify,
    /// Told when the reader has room again.
    room: Notify,
    /// Told when the worker can't go on.
    fatal: Notify,
    /// Told when what is under way is to be dropped.
    cancel: Notify,
    cancelled: AtomicBool,
    /// Below so many records the reader asks for more.
    low: usize,
    /// Once it is pulled nothing more is taken.
    stop: Option<Stop>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Lanes,
    /// Of each slot.
    under_way: Vec<Vec<Position>>,
    /// Of each slot, whether what is under way is of a stream that is gone: what becomes of it says nothing of what stands
    /// there now.
    stale: Vec<bool>,
    /// Handled, to be settled.
    done: Vec<Position>,
    /// Handed to the backend to be settled, and not confirmed.
    settling: Vec<Position>,
    /// Failed, to come again after so long.
    again: Vec<(Position, Duration)>,
    /// Handed to the backend to come again, and not confirmed.
    refusing: Vec<(Position, Duration)>,
    /// Whether what failed keeps its key, and how many keys do so for good.
    holds: Option<usize>,
    /// Handed out by a group that is gone: when the new one hands them out again, they aren't handled again.
    carried: HashSet<Position>,
    /// Under way, and not to be settled.
    orphans: HashSet<Position>,
    /// Settled while entries were asked for that were delivered before: the answer may still have them.
    settled_meanwhile: Option<HashSet<Position>>,
    idle_slots: usize,
    settler_idle: bool,
    reader_waits: bool,
    draining: bool,
    slots: usize,
    fatal: Option<Error>,
}

impl Queue {
    pub(super) fn new(slots: usize, read_ahead: usize, stop: Option<Stop>) -> Self {
        Self {
            state: Mutex::new(State {
                lanes: Lanes::new(slots),
                under_way: vec![Vec::new(); slots],
                stale: vec![false; slots],
                slots,
                ..State::default()
            }),
            work: Notify::new(),
            settle: Notify::new(),
            room: Notify::new(),
            fatal: Notify::new(),
            cancel: Notify::new(),
            cancelled: AtomicBool::new(false),
            low: read_ahead / 2,
            stop,
        }
    }

    /// Makes a queue in which what failed keeps its key until it comes [again](Self::again).
    pub(super) fn holding(slots: usize, read_ahead: usize, stop: Option<Stop>) -> Self {
        let queue = Self::new(slots, read_ahead, stop);
        {
            let mut state = lock(&queue.state);
            state.lanes = Lanes::holding();
            state.holds = Some(0);
        }
        queue
    }

    /// Adds what came again after it failed.
    pub(super) fn again(&self, stored: Stored) {
        let mut state = lock(&self.state);
        // It came, so nothing is to be said of its last attempt.
        let State { again, refusing, .. } = &mut *state;
        for refused in [again, refusing] {
            refused.retain(|(position, _)| *position != stored.position);
        }
        state.lanes.again(stored);
        drop(state);
        self.work.notify_one();
    }

    /// Lets what waits behind something that failed go on.
    pub(super) fn resume(&self, key: &Bytes) {
        lock(&self.state).lanes.done(key);
        self.work.notify_one();
    }

    /// Takes what failed and is to come again.
    pub(super) fn take_again(&self) -> Vec<(Position, Duration)> {
        let mut state = lock(&self.state);
        let taken = std::mem::take(&mut state.again);
        state.refusing.extend_from_slice(&taken);
        taken
    }

    /// Some of what was handed to the backend wasn't recorded: it is to be settled or refused again.
    pub(super) fn settled_but(&self, not: &HashSet<Position>) {
        let mut state = lock(&self.state);
        let settling = std::mem::take(&mut state.settling);
        state.done.extend(settling.into_iter().filter(|position| not.contains(position)));
        let refusing = std::mem::take(&mut state.refusing);
        state.again.extend(refusing.into_iter().filter(|(position, _)| not.contains(position)));
    }

    /// Adds what was read, as far as it isn't here already.
    pub(super) fn push(&self, records: Vec<Stored>, may_be_known: bool) {
        let mut state = lock(&self.state);
        let mut known = HashSet::new();
        if may_be_known {
            known = state.known();
            known.extend(state.settled_meanwhile.take().into_iter().flatten());
        }
        let mut count = 0;
        for stored in records {
            if known.contains(&stored.position) {
                continue;
            }
            if state.carried.remove(&stored.position) {
                // The new group has it pending now. Under way it is settled in the end; otherwise it is to be settled.
                if !state.is_under_way(stored.position) {
                    state.done.push(stored.position);
                }
                continue;
            }
            count += usize::from(state.lanes.push(stored));
        }
        let settle = !state.done.is_empty() && std::mem::take(&mut state.settler_idle);
        let wake = count.min(state.idle_slots);
        drop(state);
        if settle {
            self.settle.notify_one();
        }
        for _ in 0..wake {
            self.work.notify_one();
        }
    }

    /// Ends what a slot had under way, and takes its next, at most so many; says no when the slot is to end.
    ///
    /// `taken` holds what was under way, of which each has its fate, and is filled with what is next.
    pub(super) async fn next(&self, slot: usize, most: usize, taken: &mut Vec<Stored>, fates: &mut Vec<Fate>) -> bool {
        if let Some(found) = self.turn_over(slot, most, taken, fates, false) {
            return found;
        }
        loop {
            let told = self.work.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(found) = self.turn_over(slot, most, taken, fates, true) {
                return found;
            }
            let idle = Idle(self);
            told.await;
            drop(idle);
        }
    }

    /// Says whether something was taken; `None` where there is nothing yet and the slot counts as idle, if it `waits`.
    fn turn_over(
        &self,
        slot: usize,
        most: usize,
        taken: &mut Vec<Stored>,
        fates: &mut Vec<Fate>,
        waits: bool,
    ) -> Option<bool> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let settle = !taken.is_empty() && std::mem::take(&mut state.settler_idle);
        state.under_way[slot].clear();
        let counts = !std::mem::take(&mut state.stale[slot]);
        for (stored, fate) in taken.drain(..).zip(fates.drain(..)) {
            let is_orphan = !state.orphans.is_empty() && state.orphans.remove(&stored.position);
            match fate {
                _ if is_orphan || !counts => {}
                Fate::Handled => state.done.push(stored.position),
                // The new group's is to stay unsettled, too.
                Fate::Unsettled => drop(state.carried.remove(&stored.position)),
                Fate::Again(delay) => state.again.push((stored.position, delay)),
            }
            if let Some(key) = &stored.record.key
                && (fate == Fate::Handled || state.holds.is_none() || is_orphan)
            {
                state.lanes.done(key);
            }
        }
        if state.draining || self.is_cancelled() || self.stop.as_ref().is_some_and(Stop::is_stopped) {
            if settle {
                self.settle.notify_one();
            }
            return Some(false);
        }
        state.lanes.take(most, taken);
        state.under_way[slot].extend(taken.iter().map(|stored| stored.position));
        if taken.is_empty() && waits {
            state.idle_slots += 1;
        }
        if settle {
            self.settle.notify_one();
        }
        if state.reader_waits && state.lanes.records() <= self.low {
            state.reader_waits = false;
            self.room.notify_one();
        }
        if !taken.is_empty() && state.lanes.is_ready() && state.idle_slots > 0 {
            // What waited behind a key that is free now, or more than the slots that were woken took.
            self.work.notify_one();
        }
        (!taken.is_empty()).then_some(true)
    }

    /// Takes the positions of what is pending and won't be handled here, since its lane is paused.
    pub(super) fn take_refused(&self) -> Vec<Position> {
        lock(&self.state).lanes.take_refused()
    }

    /// Pauses the lane of something that failed in a slot, and says how many lanes are paused.
    pub(super) fn pause(&self, slot: usize, failed: &Stored) -> usize {
        let mut state = lock(&self.state);
        if let Some(held) = &mut state.holds {
            *held += 1;
            return *held;
        }
        if !state.stale[slot] {
            state.lanes.pause(lane_of(failed));
        }
        state.lanes.paused()
    }

    /// Says whether the lane was paused.
    pub(super) fn is_paused(&self, stored: &Stored) -> bool {
        lock(&self.state).lanes.is_paused(stored)
    }

    /// Ends the worker with an error.
    pub(super) fn fail(&self, error: Error) {
        lock(&self.state).fatal.get_or_insert(error);
        self.fatal.notify_one();
    }

    /// Waits for such an error.
    pub(super) async fn fatal(&self) -> Error {
        loop {
            if let Some(error) = &lock(&self.state).fatal {
                return error.clone();
            }
            self.fatal.notified().await;
        }
    }

    /// How many records and bytes wait.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.lanes.records(), state.lanes.bytes())
    }

    /// Waits until few enough records wait that the reader should read.
    pub(super) async fn room(&self, has_room: impl Fn(usize, usize) -> bool) {
        loop {
            {
                let mut state = lock(&self.state);
                if has_room(state.lanes.records(), state.lanes.bytes()) {
                    return;
                }
                state.reader_waits = true;
            }
            self.room.notified().await;
        }
    }

    /// Waits for something to settle and takes it, at most so many. Empty where something is to come again, and once every
    /// slot has ended.
    pub(super) async fn to_settle(&self, most: usize) -> Vec<Position> {
        loop {
            {
                let mut state = lock(&self.state);
                if !state.done.is_empty() {
                    let from = state.done.len().saturating_sub(most);
                    let taken = state.done.split_off(from);
                    state.settling.extend_from_slice(&taken);
                    return taken;
                }
                if state.slots == 0 || !state.again.is_empty() {
                    return Vec::new();
                }
                state.settler_idle = true;
            }
            self.settle.notified().await;
        }
    }

    pub(super) fn settled(&self) {
        let mut state = lock(&self.state);
        let settled = std::mem::take(&mut state.settling);
        if let Some(meanwhile) = &mut state.settled_meanwhile {
            meanwhile.extend(settled);
        }
    }

    /// Says that entries are asked for which may be here. What is settled from here on until they are
    /// [pushed](Self::push) counts as known.
    pub(super) fn asking_again(&self) {
        lock(&self.state).settled_meanwhile = Some(HashSet::new());
    }

    /// Settles and refuses again what wasn't confirmed: it changes nothing where it was recorded, but for a delay that begins
    /// anew.
    pub(super) fn settle_again(&self) {
        let mut state = lock(&self.state);
        let settling = std::mem::take(&mut state.settling);
        state.done.extend(settling);
        let refusing = std::mem::take(&mut state.refusing);
        state.again.extend(refusing);
    }

    /// The group is gone, and what it handed out with it. What waits comes again; what was handled doesn't have to be.
    pub(super) fn vanished(&self) {
        let mut state = lock(&self.state);
        state.lanes.remove(|_| true);
        let carried: Vec<_> = state.done.drain(..).collect();
        state.carried.extend(carried);
        let carried = std::mem::take(&mut state.settling);
        state.carried.extend(carried);
        let carried: Vec<_> = state.under_way.iter().flatten().copied().collect();
        state.carried.extend(carried);
    }

    /// What was handed out is gone, and nothing of it is to be settled, not even what is under way, of these keys.
    pub(super) fn lost(&self, under_way: &HashSet<Bytes>) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.lanes.clear(under_way);
        state.done.clear();
        state.settling.clear();
        state.again.clear();
        state.refusing.clear();
        state.orphans.extend(state.under_way.iter().flatten());
        state.holds = state.holds.map(|_| 0);
    }

    /// The stream is gone, and everything that is here with it.
    pub(super) fn stream_gone(&self) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.lanes.remove(|_| true);
        state.lanes.resume();
        state.done.clear();
        state.settling.clear();
        for (stale, under_way) in state.stale.iter_mut().zip(&state.under_way) {
            *stale = !under_way.is_empty();
        }
    }

    /// Everything that is pending for this worker and isn't settled.
    pub(super) fn held(&self) -> Vec<Position> {
        lock(&self.state).known().into_iter().collect()
    }

    /// Removes those that wait and are no longer this consumer's, and returns them.
    pub(super) fn lose(&self, lost: &HashSet<Position>) -> Vec<Position> {
        lock(&self.state).lanes.remove(|position| lost.contains(&position))
    }

    /// Removes those that wait of these partitions.
    pub(super) fn forget(&self, partitions: &[u32]) {
        lock(&self.state).lanes.remove(|position| partitions.contains(&position.partition()));
    }

    /// Removes those that wait of these partitions behind everything that was begun of them, up to a position each. What is
    /// before that is handled still, so that all of it can be committed.
    pub(super) fn forget_rest(&self, partitions: &[u32], begun: &Positions) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let mut begun = begun.clone();
        begun.extend(state.under_way.iter().flatten().chain(&state.done).copied());
        state.lanes.remove(|position| {
            let partition = position.partition();
            partitions.contains(&partition) && begun.get(partition).is_none_or(|begun| begun < position)
        });
    }

    /// The partitions of which something waits, is under way or is handled and wasn't taken to be settled.
    pub(super) fn busy(&self) -> HashSet<u32> {
        let state = lock(&self.state);
        let here = state.under_way.iter().flatten().chain(&state.done).copied();
        state.lanes.positions().chain(here).map(Position::partition).collect()
    }

    /// Takes nothing more, and returns what waited.
    pub(super) fn drain(&self) -> Vec<Position> {
        let mut state = lock(&self.state);
        state.draining = true;
        let waited = state.lanes.remove(|_| true);
        drop(state);
        self.work.notify_waiters();
        waited
    }

    /// Drops what is under way.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.cancel.notify_waiters();
        self.work.notify_waiters();
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn cancelling(&self) -> tokio::sync::futures::Notified<'_> {
        self.cancel.notified()
    }

    /// Says whether nothing can be handled and nothing is to be settled.
    pub(super) fn is_stuck(&self) -> bool {
        let state = lock(&self.state);
        let under_way = state.under_way.iter().any(|slot| !slot.is_empty());
        !under_way
            && !state.lanes.is_ready()
            && state.done.is_empty()
            && state.settling.is_empty()
            && state.again.is_empty()
            && state.refusing.is_empty()
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).slots == 0
    }

    /// One slot has ended.
    pub(super) fn slot_ended(&self) {
        lock(&self.state).slots -= 1;
        self.settle.notify_one();
    }

    /// Takes all that is handled and not settled.
    pub(super) fn finished(&self) -> Vec<Position> {
        std::mem::take(&mut lock(&self.state).done)
    }

    /// Waits until every slot has ended.
    pub(super) async fn ended(&self) {
        while lock(&self.state).slots > 0 {
            self.settle.notified().await;
        }
    }

    /// What is under way, and what is handled and not settled.
    pub(super) fn not_settled(&self) -> Vec<Position> {
        let state = lock(&self.state);
        let handled = state.done.iter().chain(&state.settling);
        state.under_way.iter().flatten().chain(handled).copied().collect()
    }

    /// What is under way.
    pub(super) fn under_way(&self) -> Vec<Position> {
        lock(&self.state).under_way.iter().flatten().copied().collect()
    }
}

impl State {
    fn known(&self) -> HashSet<Position> {
        let settled = self.done.iter().chain(&self.settling).copied();
        self.lanes.positions().chain(self.under_way.iter().flatten().copied()).chain(settled).collect()
    }

    fn is_under_way(&self, position: Position) -> bool {
        self.under_way.iter().flatten().any(|one| *one == position)
    }
}

/// A slot that waits, and was counted.
struct Idle<'a>(&'a Queue);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).idle_slots -= 1;
    }
}
