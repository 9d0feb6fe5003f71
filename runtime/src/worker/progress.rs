use std::collections::{HashMap, VecDeque};

use crate::stream::{Position, Positions};

/// What of each partition was given and isn't committed: in order, and the first that isn't handled holds up the rest.
#[derive(Debug, Default)]
pub(super) struct Progress {
    parts: HashMap<u32, Part>,
}

#[derive(Debug, Default)]
struct Part {
    /// In the order of their offsets.
    given: VecDeque<Given>,
    /// What was handled or under way when an assignment ended: given again, it isn't handled again.
    before: VecDeque<Given>,
    /// The last of those that are handled without one before them that isn't.
    done: Option<Position>,
    /// What is known to be committed.
    committed: Option<Position>,
    /// Whether it is to be handed over, and takes nothing more.
    moving: bool,
    held_up: bool,
}

#[derive(Debug)]
struct Given {
    offset: u128,
    done: bool,
}

impl Progress {
    /// Partitions are this worker's from now on.
    pub(super) fn assign(&mut self, partitions: &[u32]) {
        for partition in partitions {
            let part = self.parts.entry(*partition).or_default();
            (part.moving, part.held_up, part.done) = (false, false, None);
        }
    }

    /// Says that a record was given, and whether it was handled before or is just being.
    pub(super) fn give(&mut self, position: Position) -> bool {
        let part = self.parts.entry(position.partition()).or_default();
        let offset = position.offset();
        // What is given isn't committed: the group was moved back, or made anew with its stream.
        part.committed = part.committed.filter(|committed| *committed < position);
        // What isn't given again was committed by somebody.
        while part.before.pop_front_if(|before| before.offset < offset).is_some() {}
        let before = part.before.pop_front_if(|before| before.offset == offset);
        part.given.push_back(Given { offset, done: before.as_ref().is_some_and(|before| before.done) });
        part.advance(position.partition());
        before.is_some()
    }

    /// Says that records were handled.
    pub(super) fn handled(&mut self, positions: &[Position]) {
        for position in positions {
            let Some(part) = self.parts.get_mut(&position.partition()) else { continue };
            for given in [&mut part.given, &mut part.before] {
                if let Ok(index) = given.binary_search_by_key(&position.offset(), |given| given.offset) {
                    given[index].done = true;
                }
            }
            part.advance(position.partition());
        }
    }

    /// What can be committed and isn't.
    pub(super) fn to_commit(&self) -> Positions {
        let done = self.parts.values().filter(|part| part.done > part.committed);
        done.filter_map(|part| part.done).collect()
    }

    /// Whether something can be committed and isn't.
    pub(super) fn can_commit(&self) -> bool {
        self.parts.values().any(|part| part.done > part.committed)
    }

    /// What was to be committed of these partitions never will be: they are another's.
    pub(super) fn refused(&mut self, partitions: &[u32]) {
        for partition in partitions {
            if let Some(part) = self.parts.get_mut(partition) {
                part.done = None;
            }
        }
    }

    pub(super) fn committed(&mut self, positions: &Positions) {
        for position in positions.iter() {
            if let Some(part) = self.parts.get_mut(&position.partition()) {
                part.committed = part.committed.filter(|before| *before > position).or(Some(position));
            }
        }
    }

    /// What is known to be committed of all partitions ever had.
    pub(super) fn known(&self) -> Positions {
        self.parts.values().filter_map(|part| part.committed).collect()
    }

    /// Partitions are to be handed over: what waits of them isn't handled any more.
    pub(super) fn moving(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.parts.entry(*partition).or_default().moving = true;
        }
    }

    /// Whether a partition is to move.
    pub(super) fn is_moving(&self) -> bool {
        self.parts.values().any(|part| part.moving)
    }

    /// Whether a partition is to move of which something can be committed.
    pub(super) fn hurries(&self) -> bool {
        self.parts.values().any(|part| part.moving && part.done > part.committed)
    }

    /// Up to where something of these partitions was handled, whatever before it wasn't.
    pub(super) fn begun(&self, partitions: &[u32]) -> Positions {
        let last = |partition: &u32| {
            let part = self.parts.get(partition)?;
            let last = part.given.iter().rev().find(|given| given.done)?;
            Some(Position::new(*partition, last.offset))
        };
        partitions.iter().filter_map(last).collect()
    }

    /// The partitions that can be handed over: everything that could be committed is.
    pub(super) fn to_hand_over(&self, is_under_way: impl Fn(u32) -> bool) -> Vec<u32> {
        let ready = |(partition, part): &(&u32, &Part)| {
            part.moving && part.done <= part.committed && !is_under_way(**partition)
        };
        self.parts.iter().filter(ready).map(|(partition, _)| *partition).collect()
    }

    /// The partitions that this worker has or had.
    pub(super) fn partitions(&self) -> Vec<u32> {
        self.parts.keys().copied().collect()
    }

    /// Partitions aren't this worker's any longer. What is under way of them goes on.
    pub(super) fn revoked(&mut self, partitions: &[u32], is_under_way: impl Fn(Position) -> bool) {
        for partition in partitions {
            let Some(part) = self.parts.get_mut(partition) else { continue };
            let keep = |given: &Given| given.done || is_under_way(Position::new(*partition, given.offset));
            part.before.extend(part.given.drain(..).filter(keep));
            (part.moving, part.held_up, part.done) = (false, false, None);
        }
    }

    /// The stream is gone: what stands at these positions next may be something else.
    pub(super) fn forget(&mut self) {
        for part in self.parts.values_mut() {
            part.before.clear();
        }
    }

    /// Whether too much of a partition that isn't held up yet wasn't noted as handled.
    pub(super) fn has_much(&self, most: usize) -> bool {
        self.parts.values().any(|part| part.is_much(most))
    }

    /// The partitions of which too much isn't committed and that aren't held up yet, each with what holds it up.
    pub(super) fn hold_up(&mut self, most: usize) -> Vec<Position> {
        let mut held_up = Vec::new();
        for (partition, part) in &mut self.parts {
            if part.is_much(most)
                && let Some(first) = part.given.front()
            {
                held_up.push(Position::new(*partition, first.offset));
                part.held_up = true;
            }
        }
        held_up
    }

    /// The partitions that are held up.
    pub(super) fn held_up(&self) -> Vec<u32> {
        self.parts.iter().filter(|(_, part)| part.held_up).map(|(partition, _)| *partition).collect()
    }

    /// The partitions that can be read on.
    pub(super) fn let_go(&mut self, most: usize) -> Vec<u32> {
        let mut free = Vec::new();
        for (partition, part) in &mut self.parts {
            if part.held_up && part.given.len() <= most / 2 {
                part.held_up = false;
                free.push(*partition);
            }
        }
        free
    }
}

impl Part {
    fn is_much(&self, most: usize) -> bool {
        self.given.len() >= most && !self.moving && !self.held_up
    }

    fn advance(&mut self, partition: u32) {
        while let Some(given) = self.given.pop_front_if(|given| given.done) {
            self.done = Some(Position::new(partition, given.offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u128) -> Position {
        Position::new(0, offset)
    }

    fn given(offsets: impl IntoIterator<Item = u128>) -> Progress {
        let mut progress = Progress::default();
        progress.assign(&[0]);
        for offset in offsets {
            assert!(!progress.give(at(offset)));
        }
        progress
    }

    fn to_commit(progress: &Progress) -> Option<u128> {
        progress.to_commit().get(0).map(Position::offset)
    }

    #[test]
    fn what_is_committed_never_passes_what_is_not_handled() {
        let mut progress = given([3, 4, 7, 8]);
        progress.handled(&[at(4), at(8)]);
        assert_eq!(to_commit(&progress), None);
        progress.handled(&[at(3)]);
        assert_eq!(to_commit(&progress), Some(4));
        progress.committed(&progress.to_commit());
        assert_eq!(to_commit(&progress), None);
        progress.handled(&[at(7)]);
        assert_eq!(to_commit(&progress), Some(8));
    }

    #[test]
    fn what_was_handled_before_a_partition_came_back_is_not_handled_again() {
        let mut progress = given([1, 2, 3, 4]);
        progress.handled(&[at(2), at(4)]);
        progress.revoked(&[0], |position| position == at(3));
        progress.assign(&[0]);
        assert_eq!([1, 2, 3, 4, 5].map(|offset| progress.give(at(offset))), [false, true, true, true, false]);
        progress.handled(&[at(1)]);
        assert_eq!(to_commit(&progress), Some(2));
        // It was under way all the time.
        progress.handled(&[at(3)]);
        assert_eq!(to_commit(&progress), Some(4));
    }

    #[test]
    fn what_another_committed_meanwhile_is_forgotten() {
        let mut progress = given([1, 2, 3]);
        progress.handled(&[at(3)]);
        progress.revoked(&[0], |_| false);
        progress.assign(&[0]);
        assert!(!progress.give(at(9)));
        progress.handled(&[at(9)]);
        assert_eq!(to_commit(&progress), Some(9));
    }

    #[test]
    fn what_was_handled_in_a_stream_that_is_gone_is_handled_in_the_next() {
        let mut progress = given([1, 2, 3, 4]);
        progress.handled(&[at(1), at(3)]);
        progress.committed(&progress.to_commit());
        progress.revoked(&[0], |position| position == at(2));
        progress.forget();
        progress.assign(&[0]);
        assert_eq!([1, 2, 3].map(|offset| progress.give(at(offset))), [false; 3]);
        progress.handled(&[at(1)]);
        assert_eq!(to_commit(&progress), Some(1));
    }

    #[test]
    fn a_partition_is_handed_over_once_what_can_be_committed_is() {
        let mut progress = given([1, 2]);
        progress.moving(&[0]);
        progress.handled(&[at(1)]);
        assert!(progress.to_hand_over(|_| false).is_empty());
        progress.committed(&progress.to_commit());
        assert!(progress.to_hand_over(|_| true).is_empty());
        assert_eq!(progress.to_hand_over(|_| false), [0]);
    }

    #[test]
    fn too_much_that_is_not_committed_holds_a_partition_up_until_half_is() {
        let mut progress = given(1..=4);
        assert!(!progress.has_much(5) && progress.hold_up(5).is_empty());
        assert!(progress.has_much(4));
        assert_eq!(progress.hold_up(4), [at(1)]);
        assert!(!progress.has_much(4) && progress.hold_up(4).is_empty());
        progress.handled(&[at(1)]);
        assert!(progress.let_go(4).is_empty());
        progress.handled(&[at(2)]);
        assert_eq!(progress.let_go(4), [0]);
        assert!(progress.let_go(4).is_empty());
    }
}
