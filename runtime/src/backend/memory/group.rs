use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::log::{Partition, State, failed, position, rotated};
use crate::capability::{BackendError, Read, Stored, Taken};
use crate::error::ErrorKind;
use crate::stream::{Depth, PENDING_WITHOUT_HEIR, PendingEntry, Position, Positions, Start, TRIMMED_WHILE_PENDING};

/// An ack group: how far each partition was handed out, and what is pending.
#[derive(Debug)]
pub(super) struct Group {
    parts: Vec<Part>,
    consumers: BTreeSet<Arc<str>>,
    /// Counts deliveries.
    turn: u64,
    /// The partition that the next read begins with.
    rotation: usize,
}

#[derive(Debug)]
struct Part {
    /// The first offset that nobody was handed.
    next: u64,
    pending: BTreeMap<u64, Pending>,
}

#[derive(Debug)]
struct Pending {
    consumer: Arc<str>,
    /// `None` once it was given back: idle for ever.
    since: Option<Instant>,
    attempt: u32,
    /// The delivery that was its last, so that among those of one moment the oldest is known.
    turn: u64,
}

impl Pending {
    fn idle(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::MAX, |since| now.duration_since(since))
    }

    fn deliver(&mut self, to: &Arc<str>, now: Instant, turn: u64) -> u32 {
        self.consumer = to.clone();
        self.since = Some(now);
        self.turn = turn;
        self.attempt = self.attempt.saturating_add(1);
        self.attempt
    }
}

impl State {
    pub(super) fn ensure_group(&mut self, name: &Arc<str>, start: &Start) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        let parts = self.firsts(start).into_iter().map(|next| Part { next, pending: BTreeMap::new() }).collect();
        self.groups.insert(name.clone(), Group { parts, consumers: BTreeSet::new(), turn: 0, rotation: 0 });
        true
    }

    /// A group and the records that it hands out.
    pub(super) fn group(&mut self, name: &str) -> Result<(&mut Group, &[Partition]), BackendError> {
        let absent = || failed(ErrorKind::Absent, "there is no such group; `ensure` creates it");
        let group = self.groups.get_mut(name).ok_or_else(absent)?;
        Ok((group, &self.partitions))
    }

    /// Removes what every group has acknowledged.
    pub(super) fn trim_acknowledged(&mut self) -> u64 {
        let mut removed = 0;
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            let floors = self.groups.values().map(|group| group.parts[index].floor());
            let floors = floors.chain(self.commit_groups.values().map(|group| group.floor(index)));
            let floors = floors.chain(self.durables.values().map(|durable| durable.floor(index)));
            if let Some(floor) = floors.min() {
                removed += partition.remove_below(floor);
            }
        }
        removed
    }
}

impl Part {
    /// The first offset that isn't acknowledged.
    fn floor(&self) -> u64 {
        self.pending.first_key_value().map_or(self.next, |(offset, _)| *offset)
    }
}

impl Group {
    /// Knows a consumer by its name, once.
    fn consumer(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.consumers.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.consumers.insert(name.clone());
        name
    }

    pub(super) fn read_new(&mut self, partitions: &[Partition], consumer: &str, max: usize) -> Read {
        let consumer = self.consumer(consumer);
        let now = Instant::now();
        let mut records = Vec::new();
        self.rotation = self.rotation.wrapping_add(1);
        for index in rotated(partitions.len(), self.rotation) {
            let (part, partition) = (&mut self.parts[index], &partitions[index]);
            if part.next < partition.first {
                // What was read comes first; the next read tells this.
                if !records.is_empty() {
                    continue;
                }
                part.next = partition.first;
                if let Some(first) = position(index, part.next) {
                    return Read::Trimmed { first, certain: true };
                }
            }
            while records.len() < max
                && let Some(record) = partition.get(part.next)
                && let Some(position) = position(index, part.next)
            {
                self.turn += 1;
                let pending = Pending { consumer: consumer.clone(), since: Some(now), attempt: 1, turn: self.turn };
                part.pending.insert(part.next, pending);
                records.push(Stored { position, attempt: 1, record: record.clone() });
                part.next += 1;
            }
        }
        Read::Records(records)
    }

    /// Delivers these again, which are pending, in order. Those that are gone from the stream are pending no longer.
    fn take(&mut self, partitions: &[Partition], consumer: &str, places: &[(usize, u64)]) -> Taken {
        let consumer = self.consumer(consumer);
        let now = Instant::now();
        let mut taken = Taken::default();
        for &(index, offset) in places {
            let pending = &mut self.parts[index].pending;
            let Some(position) = position(index, offset) else { continue };
            let Some(record) = partitions[index].get(offset) else {
                pending.remove(&offset);
                taken.lost.push(position);
                continue;
            };
            let Some(pending) = pending.get_mut(&offset) else { continue };
            self.turn += 1;
            let attempt = pending.deliver(&consumer, now, self.turn);
            taken.records.push(Stored { position, attempt, record: record.clone() });
        }
        taken
    }

    pub(super) fn history(
        &mut self,
        partitions: &[Partition],
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> Taken {
        let parts = self.parts.iter().enumerate();
        let own = parts.flat_map(|(index, part)| {
            let pending = part.pending.range(from(index, after)..);
            pending.filter(|(_, pending)| *pending.consumer == *consumer).map(move |(offset, _)| (index, *offset))
        });
        let places: Vec<_> = own.take(max).collect();
        self.take(partitions, consumer, &places)
    }

    /// Takes over what was delivered longest ago, so that repeated claims get to all.
    pub(super) fn claim(&mut self, partitions: &[Partition], consumer: &str, idle: Duration, max: usize) -> Taken {
        let now = Instant::now();
        let parts = self.parts.iter().enumerate();
        let mut found: Vec<_> = parts
            .flat_map(|(index, part)| {
                let pending = part.pending.iter().filter(|(_, pending)| pending.idle(now) >= idle);
                pending.map(move |(offset, pending)| (pending.turn, index, *offset))
            })
            .collect();
        if found.len() > max {
            found.select_nth_unstable(max);
            found.truncate(max);
        }
        let mut places: Vec<_> = found.into_iter().map(|(_, index, offset)| (index, offset)).collect();
        places.sort_unstable();
        self.take(partitions, consumer, &places)
    }

    pub(super) fn ack(&mut self, positions: &[Position]) -> u64 {
        let mut count = 0;
        for position in positions {
            let Some((part, offset)) = self.part(*position) else { continue };
            count += u64::from(part.pending.remove(&offset).is_some());
        }
        count
    }

    fn part(&mut self, position: Position) -> Option<(&mut Part, u64)> {
        let part = self.parts.get_mut(usize::try_from(position.partition()).ok()?)?;
        Some((part, u64::try_from(position.offset()).ok()?))
    }

    /// Changes those that are pending for the consumer, and returns them.
    pub(super) fn change(
        &mut self,
        consumer: &str,
        positions: &[Position],
        change: impl Fn(&mut Option<Instant>, &mut u32),
    ) -> Vec<Position> {
        let mut changed = Vec::new();
        for position in positions {
            let Some((part, offset)) = self.part(*position) else { continue };
            if let Some(pending) = part.pending.get_mut(&offset).filter(|pending| *pending.consumer == *consumer) {
                change(&mut pending.since, &mut pending.attempt);
                changed.push(*position);
            }
        }
        changed
    }

    pub(super) fn pending(&self, after: Option<Position>, max: usize) -> Vec<PendingEntry> {
        let now = Instant::now();
        let parts = self.parts.iter().enumerate();
        let entries = parts.flat_map(|(index, part)| {
            part.pending.range(from(index, after)..).filter_map(move |(offset, pending)| {
                let consumer = pending.consumer.to_string();
                Some(PendingEntry::new(position(index, *offset)?, consumer, pending.idle(now), pending.attempt))
            })
        });
        entries.take(max).collect()
    }

    pub(super) fn depth(&self, partitions: &[Partition]) -> Depth {
        let pending = self.parts.iter().map(|part| part.pending.len() as u64).sum();
        let unread = |(part, partition): (&Part, &Partition)| partition.end() - part.next.max(partition.first);
        Depth::new(pending, Some(self.parts.iter().zip(partitions).map(unread).sum()))
    }

    pub(super) fn settled(&self) -> Positions {
        let floors = self.parts.iter().enumerate();
        // Offsets begin at 1, so that nothing is acknowledged below a floor of 1.
        floors
            .filter(|(_, part)| part.floor() > 1)
            .filter_map(|(index, part)| position(index, part.floor() - 1))
            .collect()
    }

    pub(super) fn remove_consumer(
        &mut self,
        partitions: &[Partition],
        consumer: &str,
        heir: Option<&str>,
    ) -> Result<u64, BackendError> {
        let held = |pending: &Pending| *pending.consumer == *consumer;
        let conflict = |text| Err(failed(ErrorKind::Conflict, text));
        for (part, partition) in self.parts.iter().zip(partitions) {
            for (offset, _) in part.pending.iter().filter(|(_, pending)| held(pending)) {
                if heir.is_none() {
                    return conflict(PENDING_WITHOUT_HEIR);
                }
                if partition.get(*offset).is_none() {
                    return conflict(TRIMMED_WHILE_PENDING);
                }
            }
        }
        let mut count = 0;
        if let Some(heir) = heir.map(|heir| self.consumer(heir)) {
            let all = self.parts.iter_mut().flat_map(|part| part.pending.values_mut());
            for pending in all.filter(|pending| held(pending)) {
                pending.consumer = heir.clone();
                count += 1;
            }
        }
        self.consumers.remove(consumer);
        Ok(count)
    }
}

/// The offset of a partition from which entries after a position begin.
fn from(partition: usize, after: Option<Position>) -> u64 {
    match after {
        None => 0,
        Some(after) => match (partition as u64).cmp(&u64::from(after.partition())) {
            std::cmp::Ordering::Less => u64::MAX,
            std::cmp::Ordering::Equal => u64::try_from(after.offset()).unwrap_or(u64::MAX).saturating_add(1),
            std::cmp::Ordering::Greater => 0,
        },
    }
}
