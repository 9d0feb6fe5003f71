use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;

use crate::capability::Stored;
use crate::stream::Position;

/// What is handled in order: one key's deliveries, or a delivery without a key by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Key(Bytes),
    Alone(Position),
}

/// Deliveries that wait to be handled, in the order in which they came, where one key has one at a time under way.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    ready: VecDeque<Stored>,
    /// The keys under way, each with what waits behind.
    busy: HashMap<Bytes, VecDeque<Stored>>,
    /// Lanes of which something failed.
    paused: HashSet<Lane>,
    /// What was taken out because its lane is paused.
    refused: Vec<Position>,
    records: usize,
    bytes: usize,
    /// Whether one taker takes all, so that nothing can overtake.
    alone: bool,
    /// Whether what failed comes back, and what is behind it of its key waits for it.
    holds: bool,
}

pub(super) fn lane_of(stored: &Stored) -> Lane {
    stored.record.key.clone().map_or(Lane::Alone(stored.position), Lane::Key)
}

fn bytes_of(stored: &Stored) -> usize {
    let record = &stored.record;
    record.data.len() + record.key.as_ref().map_or(0, Bytes::len) + record.headers.bytes()
}

impl Lanes {
    pub(super) fn new(takers: usize) -> Self {
        Self { alone: takers == 1, ..Self::default() }
    }

    /// Makes lanes whose keys stay under way when something of them failed, until it is [given again](Self::again) or the
    /// key is [done](Self::done).
    pub(super) fn holding() -> Self {
        Self { holds: true, ..Self::default() }
    }

    /// Adds a delivery that failed and came back: it is the next of its key.
    pub(super) fn again(&mut self, stored: Stored) {
        if let Some(key) = stored.record.key.clone() {
            self.done(&key);
        }
        self.records += 1;
        self.bytes += bytes_of(&stored);
        self.ready.push_front(stored);
    }

    /// Adds a delivery behind the others, or refuses it where its lane is paused.
    pub(super) fn push(&mut self, stored: Stored) -> bool {
        if !self.paused.is_empty() && self.is_paused(&stored) {
            self.refused.push(stored.position);
            return false;
        }
        self.records += 1;
        self.bytes += bytes_of(&stored);
        self.ready.push_back(stored);
        true
    }

    /// Takes at most so many deliveries, whose keys are then under way together.
    pub(super) fn take(&mut self, most: usize, taken: &mut Vec<Stored>) {
        while taken.len() < most
            && let Some(stored) = self.ready.pop_front()
        {
            if !self.paused.is_empty() && self.is_paused(&stored) {
                self.forget(&stored);
                self.refused.push(stored.position);
                continue;
            }
            if let Some(key) = stored.record.key.as_ref().filter(|_| !self.alone) {
                match self.busy.get_mut(key) {
                    // A batch may hold several of one key, in order.
                    Some(behind)
                        if self.holds
                            || !(behind.is_empty() && taken.iter().any(|one| one.record.key.as_ref() == Some(key))) =>
                    {
                        behind.push_back(stored);
                        continue;
                    }
                    Some(_) => {}
                    None => {
                        self.busy.insert(key.clone(), VecDeque::new());
                    }
                }
            }
            self.forget(&stored);
            taken.push(stored);
        }
    }

    /// Ends what is under way of a key; what waits behind it is next.
    pub(super) fn done(&mut self, key: &Bytes) {
        if self.alone {
            return;
        }
        for stored in self.busy.remove(key).into_iter().flatten().rev() {
            self.ready.push_front(stored);
        }
    }

    /// Forgets what waits, and every key but those that are under way.
    pub(super) fn clear(&mut self, under_way: &HashSet<Bytes>) {
        self.ready.clear();
        self.busy.retain(|key, behind| {
            behind.clear();
            under_way.contains(key)
        });
        (self.records, self.bytes) = (0, 0);
    }

    /// Handles nothing more of a lane.
    pub(super) fn pause(&mut self, lane: Lane) {
        // A copy, since what was read may share the memory of a whole page.
        self.paused.insert(match lane {
            Lane::Key(key) => Lane::Key(Bytes::copy_from_slice(&key)),
            alone @ Lane::Alone(_) => alone,
        });
    }

    /// Handles every lane again.
    pub(super) fn resume(&mut self) {
        self.paused.clear();
    }

    /// Takes the positions of what was refused: it is pending, and nothing here will handle it.
    pub(super) fn take_refused(&mut self) -> Vec<Position> {
        std::mem::take(&mut self.refused)
    }

    pub(super) fn paused(&self) -> usize {
        self.paused.len()
    }

    pub(super) fn is_paused(&self, stored: &Stored) -> bool {
        self.paused.contains(&lane_of(stored))
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The positions that wait.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> + '_ {
        self.ready.iter().chain(self.busy.values().flatten()).map(|stored| stored.position)
    }

    /// Removes those that wait and of which this is true, and returns their positions.
    pub(super) fn remove(&mut self, is_meant: impl Fn(Position) -> bool) -> Vec<Position> {
        let mut removed = Vec::new();
        let (mut records, mut bytes) = (0, 0);
        for queue in std::iter::once(&mut self.ready).chain(self.busy.values_mut()) {
            queue.retain(|stored| {
                let meant = is_meant(stored.position);
                if meant {
                    records += 1;
                    bytes += bytes_of(stored);
                    removed.push(stored.position);
                }
                !meant
            });
        }
        self.records -= records;
        self.bytes -= bytes;
        removed
    }

    fn forget(&mut self, stored: &Stored) {
        self.records -= 1;
        self.bytes -= bytes_of(stored);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::capability::Record;

    fn stored(offset: u128, key: &'static str) -> Stored {
        let mut record = Record::new(Arc::default(), Bytes::from_static(b"data"));
        record.key = (!key.is_empty()).then(|| Bytes::from_static(key.as_bytes()));
        Stored { position: Position::new(0, offset), attempt: 1, record }
    }

    fn lanes(of: &[(u128, &'static str)]) -> Lanes {
        let mut lanes = Lanes::default();
        for (offset, key) in of {
            assert!(lanes.push(stored(*offset, key)));
        }
        lanes
    }

    fn take(lanes: &mut Lanes, most: usize) -> Vec<u128> {
        let mut taken = Vec::new();
        lanes.take(most, &mut taken);
        taken.iter().map(|stored| stored.position.offset()).collect()
    }

    fn done(lanes: &mut Lanes, key: &'static str) {
        lanes.done(&Bytes::from_static(key.as_bytes()));
    }

    #[test]
    fn a_key_has_one_under_way_and_the_others_pass() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, ""), (6, "")]);
        assert_eq!(take(&mut lanes, 1), [1]);
        assert_eq!(take(&mut lanes, 1), [3]);
        assert_eq!(take(&mut lanes, 1), [5]);
        assert_eq!(take(&mut lanes, 1), [6]);
        assert_eq!(take(&mut lanes, 1), []);
        assert_eq!(lanes.records(), 2);
        done(&mut lanes, "a");
        assert_eq!(take(&mut lanes, 1), [2]);
        assert_eq!(take(&mut lanes, 1), []);
        done(&mut lanes, "a");
        assert_eq!(take(&mut lanes, 1), [4]);
        done(&mut lanes, "a");
        assert_eq!((lanes.records(), lanes.bytes()), (0, 0));
    }

    #[test]
    fn a_batch_holds_several_of_a_key_in_order_but_none_of_one_under_way() {
        let mut lanes = lanes(&[(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "c"), (6, "a")]);
        assert_eq!(take(&mut lanes, 3), [1, 2, 3]);
        assert_eq!(take(&mut lanes, 9), [5]);
        done(&mut lanes, "b");
        done(&mut lanes, "a");
        assert_eq!(take(&mut lanes, 9), [6, 4]);
    }

    #[test]
    fn nothing_of_a_paused_lane_is_handled() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, ""), (4, "b")]);
        assert_eq!(take(&mut lanes, 1), [1]);
        lanes.pause(Lane::Key(Bytes::from_static(b"a")));
        lanes.pause(Lane::Alone(Position::new(0, 3)));
        done(&mut lanes, "a");
        assert_eq!(take(&mut lanes, 9), [4]);
        assert!(!lanes.push(stored(5, "a")));
        assert_eq!(lanes.take_refused().iter().map(|position| position.offset()).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(lanes.take_refused(), []);
        assert_eq!((lanes.records(), lanes.bytes()), (0, 0));
    }

    #[test]
    fn what_failed_comes_back_before_what_waits_behind_it() {
        let mut lanes = Lanes::holding();
        for (offset, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
            assert!(lanes.push(stored(offset, key)));
        }
        // One of each key at most, also in a batch.
        assert_eq!(take(&mut lanes, 9), [1, 3]);
        assert_eq!(take(&mut lanes, 9), []);
        lanes.again(stored(1, "a"));
        assert_eq!(lanes.records(), 3);
        assert_eq!(take(&mut lanes, 9), [1]);
        done(&mut lanes, "a");
        assert_eq!(take(&mut lanes, 9), [2]);
        lanes.again(stored(9, ""));
        assert_eq!(take(&mut lanes, 9), [9]);
    }

    #[test]
    fn what_waits_can_be_removed_wherever_it_waits() {
        let mut lanes = lanes(&[(1, "a"), (2, "a"), (3, "b"), (4, "b")]);
        assert_eq!(take(&mut lanes, 1), [1]);
        assert_eq!(take(&mut lanes, 1), [3]);
        let removed = lanes.remove(|position| position.offset() == 2);
        assert_eq!(removed, [Position::new(0, 2)]);
        assert_eq!(lanes.positions().map(Position::offset).collect::<Vec<_>>(), [4]);
        assert_eq!((lanes.records(), lanes.bytes()), (1, 5));
    }
}
