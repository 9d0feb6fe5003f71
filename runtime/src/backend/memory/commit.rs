use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::log::{Partition, State, failed, position, rotated};
use crate::capability::{BackendError, Fetched};
use crate::error::ErrorKind;
use crate::stream::{Lag, MemberSettings, Position, Positions, Start};

/// So long the partitions of a member with a name wait for it to come back.
const SESSION: Duration = Duration::from_secs(45);

/// A commit group: up to where each partition is acknowledged, and who has it.
#[derive(Debug)]
pub(super) struct CommitGroup {
    parts: Vec<Part>,
    members: BTreeMap<u64, Member>,
}

#[derive(Debug)]
struct Part {
    /// The first offset that isn't acknowledged.
    next: u64,
    owner: Option<Owner>,
}

/// A partition's owner, and what it has of it.
#[derive(Debug)]
struct Owner {
    member: u64,
    /// The first offset that it wasn't given.
    next: u64,
    paused: bool,
    /// When it is taken, where it is to move.
    moves: Option<Instant>,
}

#[derive(Debug)]
struct Member {
    name: Option<String>,
    hand_over: Duration,
    told: VecDeque<Fetched>,
    /// The partition that the next read begins with.
    rotation: usize,
    /// Until when its partitions are kept for one of its name.
    gone: Option<Instant>,
}

impl State {
    pub(super) fn ensure_commit_group(&mut self, name: &Arc<str>, start: &Start) -> bool {
        if self.commit_groups.contains_key(name) {
            return false;
        }
        let parts = self.offsets(start).map(|next| Part { next, owner: None }).collect();
        self.commit_groups.insert(name.clone(), CommitGroup { parts, members: BTreeMap::new() });
        true
    }

    /// The first offset of each partition after a start, clamped to what is there.
    fn offsets(&self, start: &Start) -> impl Iterator<Item = u64> {
        let after = self.start(start);
        self.partitions.iter().enumerate().map(move |(index, partition)| {
            let after = position(index, 0).and_then(|start| after.get(start.partition()));
            let next = after.map_or(0, |after| u64::try_from(after.offset()).unwrap_or(u64::MAX).saturating_add(1));
            next.clamp(partition.first, partition.end())
        })
    }

    /// A group, with what has come due, and the partitions that it reads.
    pub(super) fn commit_group(&mut self, name: &str) -> Result<(&mut CommitGroup, &[Partition]), BackendError> {
        let absent = || failed(ErrorKind::Absent, "there is no such group; `ensure` creates it");
        let group = self.commit_groups.get_mut(name).ok_or_else(absent)?;
        group.come_due();
        Ok((group, &self.partitions))
    }

    pub(super) fn delete_commit_group(&mut self, name: &str) -> Result<bool, BackendError> {
        let Ok((group, _)) = self.commit_group(name) else { return Ok(false) };
        group.is_free()?;
        Ok(self.commit_groups.remove(name).is_some())
    }

    pub(super) fn reset_offsets(&mut self, name: &str, to: &Start) -> Result<Positions, BackendError> {
        self.commit_group(name)?.0.is_free()?;
        let offsets: Vec<u64> = self.offsets(to).collect();
        let (group, partitions) = self.commit_group(name)?;
        group.parts.iter_mut().zip(offsets).for_each(|(part, next)| part.next = next);
        Ok(group.committed(partitions))
    }
}

impl CommitGroup {
    fn is_free(&self) -> Result<(), BackendError> {
        if self.members.is_empty() {
            return Ok(());
        }
        let text = format!("the group has {} members; let them leave first", self.members.len());
        Err(failed(ErrorKind::Conflict, text))
    }

    pub(super) fn join(&mut self, id: u64, settings: &MemberSettings) -> Result<(), BackendError> {
        let MemberSettings { name, hand_over } = settings.clone();
        let namesake = self.members.iter().find(|(_, member)| name.is_some() && member.name == name);
        let before = match namesake {
            Some((_, member)) if member.gone.is_none() => {
                let text = "a member of this name is there already; give each its own, or let it leave";
                return Err(failed(ErrorKind::Conflict, text));
            }
            namesake => namesake.map(|(id, _)| *id),
        };
        let mut member = Member { name, hand_over, told: VecDeque::new(), rotation: 0, gone: None };
        if let Some(before) = before {
            self.members.remove(&before);
            let mut back = Vec::new();
            for (index, part) in (0..).zip(&mut self.parts) {
                if let Some(owner) = part.owner.as_mut().filter(|owner| owner.member == before) {
                    *owner = Owner { member: id, next: part.next, paused: false, moves: None };
                    back.push(index);
                }
            }
            if !back.is_empty() {
                member.told.push_back(Fetched::Assigned(back));
            }
        }
        self.members.insert(id, member);
        self.spread();
        Ok(())
    }

    /// Takes a member out. The partitions of one with a name are kept for it.
    pub(super) fn leave(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.name.is_some() {
            member.gone = Some(Instant::now() + SESSION);
        } else {
            self.members.remove(&id);
            for part in &mut self.parts {
                part.owner.take_if(|owner| owner.member == id);
            }
        }
        self.spread();
    }

    /// When something comes due next.
    pub(super) fn due(&self) -> Option<Instant> {
        let moves = self.parts.iter().filter_map(|part| part.owner.as_ref()?.moves);
        moves.chain(self.members.values().filter_map(|member| member.gone)).min()
    }

    /// Takes what wasn't handed over in time, and gives up members that didn't come back.
    fn come_due(&mut self) {
        let now = Instant::now();
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        self.members.retain(|_, member| member.gone.is_none_or(|gone| gone > now));
        let members = &mut self.members;
        for (index, part) in (0..).zip(&mut self.parts) {
            let taken = part
                .owner
                .take_if(|owner| owner.moves.is_some_and(|moves| moves <= now) || !members.contains_key(&owner.member));
            if let Some(member) = taken.and_then(|owner| members.get_mut(&owner.member)) {
                revoked(member, index);
            }
        }
        self.spread();
    }

    pub(super) fn hand_over(&mut self, id: u64, partitions: &[u32]) {
        for (index, part) in (0..).zip(&mut self.parts) {
            let taken =
                part.owner.take_if(|owner| owner.member == id && owner.moves.is_some() && partitions.contains(&index));
            if taken.is_some()
                && let Some(member) = self.members.get_mut(&id)
            {
                revoked(member, index);
            }
        }
        self.spread();
    }

    /// Sees to it that the partitions are spread evenly, moving as few as possible.
    fn spread(&mut self) {
        let count = self.members.len();
        if count == 0 {
            return;
        }
        let now = Instant::now();
        let mut shares: Vec<(u64, usize)> = self.members.keys().map(|id| (*id, self.stay(*id))).collect();
        // Who has most may keep one more where they can't be even.
        shares.sort_by_key(|(id, stay)| (std::cmp::Reverse(*stay), *id));
        let (each, more) = (self.parts.len() / count, self.parts.len() % count);
        let mut to: Vec<(u64, Vec<u32>)> = Vec::new();
        for (place, (id, stay)) in shares.into_iter().enumerate() {
            let share = each + usize::from(place < more);
            if let Some(member) = self.members.get_mut(&id)
                && stay > share
            {
                let mut moving = Vec::new();
                for (index, part) in (0..self.parts.len()).zip(&mut self.parts).rev() {
                    let owner = part.owner.as_mut().filter(|owner| owner.member == id && owner.moves.is_none());
                    if let Some(owner) = owner
                        && moving.len() < stay - share
                    {
                        owner.moves = Some(now + member.hand_over);
                        moving.extend(u32::try_from(index));
                    }
                }
                moving.sort_unstable();
                member.told.push_back(Fetched::Revoking(moving));
            }
            let mut assigned = Vec::new();
            for (index, part) in (0..).zip(&mut self.parts) {
                if stay + assigned.len() < share && part.owner.is_none() {
                    part.owner = Some(Owner { member: id, next: part.next, paused: false, moves: None });
                    assigned.push(index);
                }
            }
            to.push((id, assigned));
        }
        for (id, assigned) in to {
            if let Some(member) = self.members.get_mut(&id).filter(|_| !assigned.is_empty()) {
                member.told.push_back(Fetched::Assigned(assigned));
            }
        }
    }

    /// How many partitions stay with a member.
    fn stay(&self, id: u64) -> usize {
        let stays = |owner: &Owner| owner.member == id && owner.moves.is_none();
        self.parts.iter().filter(|part| part.owner.as_ref().is_some_and(stays)).count()
    }

    /// The first offset of a partition that isn't acknowledged.
    pub(super) fn floor(&self, partition: usize) -> u64 {
        self.parts.get(partition).map_or(0, |part| part.next)
    }

    fn member(&mut self, id: u64) -> Result<&mut Member, BackendError> {
        let lost = || failed(ErrorKind::Absent, "the group was removed and made anew; join it again");
        self.members.get_mut(&id).ok_or_else(lost)
    }

    pub(super) fn next(&mut self, partitions: &[Partition], id: u64, max: usize) -> Result<Fetched, BackendError> {
        let member = self.member(id)?;
        if let Some(told) = member.told.pop_front() {
            return Ok(told);
        }
        member.rotation = member.rotation.wrapping_add(1);
        let rotation = member.rotation;
        let mut records = Vec::new();
        for index in rotated(partitions.len(), rotation) {
            let partition = &partitions[index];
            let gives = |owner: &&mut Owner| owner.member == id && !owner.paused && owner.moves.is_none();
            let Some(owner) = self.parts[index].owner.as_mut().filter(gives) else { continue };
            if owner.next < partition.first
                && let Some(first) = position(index, partition.first)
            {
                if !records.is_empty() {
                    break;
                }
                let after = partition.last_before(index, owner.next);
                owner.next = partition.first;
                return Ok(Fetched::Trimmed { after, first });
            }
            let before = records.len();
            records.extend(partition.stored(index, owner.next).take(max - before));
            owner.next += (records.len() - before) as u64;
        }
        Ok(Fetched::Records(records))
    }

    /// Commits, and returns what isn't the member's.
    pub(super) fn commit(&mut self, partitions: &[Partition], id: u64, positions: &Positions) -> Vec<u32> {
        let mut others = Vec::new();
        for position in positions.iter() {
            let index = position.partition() as usize;
            let owned =
                self.parts.get_mut(index).filter(|part| part.owner.as_ref().is_some_and(|owner| owner.member == id));
            let (Some(part), Some(partition)) = (owned, partitions.get(index)) else {
                others.push(position.partition());
                continue;
            };
            let next = u64::try_from(position.offset()).unwrap_or(u64::MAX).saturating_add(1);
            part.next = part.next.max(next.min(partition.end()));
        }
        others
    }

    /// The partitions of these positions that aren't the member's.
    pub(super) fn others(&self, id: u64, positions: &Positions) -> Vec<u32> {
        let own = self.assigned(id);
        positions.iter().map(Position::partition).filter(|partition| !own.contains(partition)).collect()
    }

    pub(super) fn rewind(&mut self, id: u64) -> Result<(), BackendError> {
        self.member(id)?;
        for part in &mut self.parts {
            if let Some(owner) = part.owner.as_mut().filter(|owner| owner.member == id) {
                owner.next = part.next;
            }
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, id: u64, partitions: &[u32], paused: bool) {
        for (index, part) in (0..).zip(&mut self.parts) {
            if let Some(owner) = part.owner.as_mut().filter(|owner| owner.member == id && partitions.contains(&index)) {
                owner.paused = paused;
            }
        }
    }

    pub(super) fn assigned(&self, id: u64) -> Vec<u32> {
        let own = |part: &Part| part.owner.as_ref().is_some_and(|owner| owner.member == id);
        (0..).zip(&self.parts).filter(|(_, part)| own(part)).map(|(index, _)| index).collect()
    }

    pub(super) fn committed(&self, partitions: &[Partition]) -> Positions {
        let parts = self.parts.iter().zip(partitions).enumerate();
        parts.filter_map(|(index, (part, partition))| partition.last_before(index, part.next)).collect()
    }

    pub(super) fn lag(&self, partitions: &[Partition]) -> Vec<Lag> {
        let committed = self.committed(partitions);
        let parts = (0..).zip(self.parts.iter().zip(partitions));
        parts
            .map(|(index, (part, partition))| {
                let records = partition.end().saturating_sub(part.next.max(partition.first));
                Lag::new(index, committed.get(index), records)
            })
            .collect()
    }
}

fn revoked(member: &mut Member, partition: u32) {
    match member.told.back_mut() {
        Some(Fetched::Revoked(partitions)) => partitions.push(partition),
        _ => member.told.push_back(Fetched::Revoked(vec![partition])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::*;
    use crate::capability::Record;
    use crate::stream::StreamSettings;

    #[test]
    fn nothing_is_left_of_a_partition_that_is_empty_again() {
        let log = Log::default();
        log.ensure(&StreamSettings::new()).unwrap();
        let name: Arc<str> = "g".into();
        log.with(|state| Ok(state.ensure_commit_group(&name, &Start::Earliest))).unwrap();
        for _ in 0..5 {
            let record = Record::new(Arc::default(), b"{}".to_vec().into());
            log.append(record, std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let left = |partition: &dyn Fn(&mut Partition)| {
            log.with(|state| {
                partition(&mut state.partitions[0]);
                let (group, partitions) = state.commit_group(&name)?;
                Ok(group.lag(partitions)[0].records)
            })
        };
        assert_eq!(left(&|_| ()).unwrap(), 5);
        assert_eq!(left(&|partition| _ = partition.remove_below(4)).unwrap(), 2);
        assert_eq!(left(&|partition| _ = partition.remove_below(6)).unwrap(), 0);
    }
}
