use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::fault::Fault;
use super::{Wire, failed, position, wire};
use crate::capability::{BackendError, Fetched, Stored};
use crate::error::ErrorKind;
use crate::stream::{Position, Positions};

/// A member reads ahead by so many records.
const AHEAD_RECORDS: usize = 4_096;
/// And by so many bytes, of which the last record may exceed it.
const AHEAD_BYTES: usize = 4 << 20;

/// What a member has, is told and has asked for: between its callers and its thread.
#[derive(Default)]
pub(super) struct Held {
    /// Its partitions, in order.
    parts: Vec<Part>,
    told: VecDeque<Fetched>,
    /// What its callers are told once, when there is nothing else.
    trouble: Option<BackendError>,
    /// Why it isn't a member any longer.
    ended: Option<(ErrorKind, String)>,
    /// The partition that the next read begins with.
    rotation: usize,
    /// Commits that weren't sent, in the order in which they came.
    commits: VecDeque<Asked>,
    rewinds: Vec<oneshot::Sender<Result<(), BackendError>>>,
    /// Who waits for the group's answer.
    arrivals: Vec<oneshot::Sender<Result<(), BackendError>>>,
    units: VecDeque<AskedUnit>,
    /// Whether a unit commits, which has the group's positions to itself.
    pub(super) unit_open: bool,
    pub(super) leaving: bool,
    /// Whether the thread has left records in its queues.
    pub(super) full: bool,
    next_id: u64,
}

/// A partition of the member's.
struct Part {
    partition: u32,
    /// What is committed, as Kafka keeps it; `None` before the first commit of a partition.
    committed: Option<Wire>,
    /// Whether something else may be committed: a commit's answer was lost.
    doubtful: bool,
    ahead: VecDeque<Ahead>,
    bytes: usize,
    paused: bool,
    /// When it is taken, where it is to move.
    moves: Option<Instant>,
}

/// What comes next of a partition.
pub(super) enum Ahead {
    Record(Stored),
    Trimmed { after: Option<Position>, first: Position },
}

/// A commit that somebody waits for.
pub(super) struct Asked {
    id: u64,
    pub(super) offsets: Vec<(u32, Wire)>,
    /// The partitions of it that aren't the member's.
    pub(super) others: Vec<u32>,
    pub(super) reply: oneshot::Sender<Result<Vec<u32>, BackendError>>,
}

/// A unit that wants to commit.
pub(super) struct AskedUnit {
    pub(super) positions: Positions,
    pub(super) reply: oneshot::Sender<Result<super::Ticket, BackendError>>,
}

/// A commit, asked for or done.
pub(super) enum Commit {
    Asked(u64, oneshot::Receiver<Result<Vec<u32>, BackendError>>),
    /// It changes nothing.
    Done(Vec<u32>),
}

impl Held {
    /// Takes what comes next, or nothing.
    pub(super) fn take(&mut self, max: usize) -> Option<Result<Fetched, BackendError>> {
        if let Some(told) = self.told.pop_front() {
            return Some(Ok(told));
        }
        if let Err(ended) = self.is_member() {
            return Some(Err(ended));
        }
        let records = self.records(max);
        match records {
            Fetched::Records(records) if records.is_empty() => self.trouble.take().map(Err),
            fetched => Some(Ok(fetched)),
        }
    }

    fn records(&mut self, max: usize) -> Fetched {
        let mut records = Vec::new();
        let count = self.parts.len();
        self.rotation = self.rotation.wrapping_add(1);
        for turn in 0..count {
            let part = &mut self.parts[(self.rotation % count + turn) % count];
            if part.paused || part.moves.is_some() {
                continue;
            }
            while records.len() < max {
                match part.ahead.pop_front() {
                    Some(Ahead::Record(stored)) => {
                        part.bytes -= size(&stored);
                        records.push(stored);
                    }
                    Some(trimmed @ Ahead::Trimmed { .. }) if !records.is_empty() => {
                        part.ahead.push_front(trimmed);
                        return Fetched::Records(records);
                    }
                    Some(Ahead::Trimmed { after, first }) => return Fetched::Trimmed { after, first },
                    None => break,
                }
            }
        }
        Fetched::Records(records)
    }

    pub(super) fn is_member(&self) -> Result<(), BackendError> {
        match &self.ended {
            Some((kind, text)) => Err(failed(*kind, text.clone())),
            None => Ok(()),
        }
    }

    /// Ends the membership, once, and fails what waits.
    pub(super) fn end(&mut self, kind: ErrorKind, text: impl Into<String>) {
        if self.ended.is_some() {
            return;
        }
        let partitions = self.assigned();
        self.lose(&partitions);
        let text = text.into();
        for asked in self.commits.drain(..) {
            let _ = asked.reply.send(Err(failed(kind, text.clone())));
        }
        for asked in self.units.drain(..) {
            let _ = asked.reply.send(Err(failed(kind, text.clone())));
        }
        for reply in self.rewinds.drain(..).chain(self.arrivals.drain(..)) {
            let _ = reply.send(Err(failed(kind, text.clone())));
        }
        self.ended = Some((kind, text));
    }

    pub(super) fn trouble(&mut self, trouble: BackendError) {
        self.trouble = Some(trouble);
    }

    fn part(&mut self, partition: u32) -> Option<&mut Part> {
        let place = self.parts.binary_search_by_key(&partition, |part| part.partition).ok()?;
        self.parts.get_mut(place)
    }

    pub(super) fn has(&self, partition: u32) -> bool {
        self.parts.binary_search_by_key(&partition, |part| part.partition).is_ok()
    }

    pub(super) fn assigned(&self) -> Vec<u32> {
        self.parts.iter().map(|part| part.partition).collect()
    }

    /// Takes partitions in, with what is committed of each.
    pub(super) fn assign(&mut self, partitions: &[(u32, Option<Wire>)]) {
        let mut new = Vec::new();
        for (partition, committed) in partitions {
            if self.has(*partition) {
                continue;
            }
            let (partition, committed) = (*partition, *committed);
            let (ahead, bytes, doubtful, paused, moves) = (VecDeque::new(), 0, false, false, None);
            self.parts.push(Part { partition, committed, doubtful, ahead, bytes, paused, moves });
            new.push(partition);
        }
        self.parts.sort_unstable_by_key(|part| part.partition);
        new.sort_unstable();
        if !new.is_empty() {
            self.told.push_back(Fetched::Assigned(new));
        }
    }

    /// Says that partitions are to move, and by when.
    pub(super) fn move_away(&mut self, partitions: &[u32], hand_over: Duration) {
        let until = Instant::now() + hand_over;
        let mut moving = Vec::new();
        for partition in partitions {
            if let Some(part) = self.part(*partition) {
                part.moves = Some(until);
                part.forget();
                moving.push(*partition);
            }
        }
        moving.sort_unstable();
        if !moving.is_empty() {
            self.told.push_back(Fetched::Revoking(moving));
        }
    }

    /// Gives up those of the partitions that are to move.
    pub(super) fn hand_over(&mut self, partitions: &[u32]) {
        let moving = |part: &&Part| part.moves.is_some() && partitions.contains(&part.partition);
        let moving: Vec<u32> = self.parts.iter().filter(moving).map(|part| part.partition).collect();
        self.lose(&moving);
    }

    /// Takes what wasn't handed over in time.
    pub(super) fn come_due(&mut self, now: Instant) {
        let due = |part: &&Part| part.moves.is_some_and(|moves| moves <= now);
        let due: Vec<u32> = self.parts.iter().filter(due).map(|part| part.partition).collect();
        self.lose(&due);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.parts.iter().filter_map(|part| part.moves).min()
    }

    /// Takes partitions out.
    pub(super) fn lose(&mut self, partitions: &[u32]) {
        let mut lost = Vec::new();
        self.parts.retain(|part| {
            let stays = !partitions.contains(&part.partition);
            if !stays {
                lost.push(part.partition);
            }
            stays
        });
        if lost.is_empty() {
            return;
        }
        match self.told.back_mut() {
            Some(Fetched::Revoked(told)) => told.extend(lost),
            _ => self.told.push_back(Fetched::Revoked(lost)),
        }
    }

    pub(super) fn pause(&mut self, partitions: &[u32], paused: bool) {
        for partition in partitions {
            if let Some(part) = self.part(*partition) {
                part.paused = paused;
            }
        }
    }

    /// How many more records of a partition may be read ahead.
    pub(super) fn room(&self, partition: u32) -> usize {
        let Ok(place) = self.parts.binary_search_by_key(&partition, |part| part.partition) else { return 0 };
        let part = &self.parts[place];
        let share = self.parts.len().max(1);
        if part.moves.is_some() || part.bytes >= (AHEAD_BYTES / share).max(1) {
            return 0;
        }
        (AHEAD_RECORDS / share).max(1).saturating_sub(part.ahead.len())
    }

    /// Whether the thread has reason to look for more.
    pub(super) fn is_hungry(&self) -> bool {
        let share = self.parts.len().max(1);
        let few = |part: &Part| part.ahead.len() <= AHEAD_RECORDS / share / 2;
        self.full && self.parts.iter().any(|part| part.moves.is_none() && few(part))
    }

    pub(super) fn push(&mut self, partition: u32, ahead: impl IntoIterator<Item = Ahead>) {
        let Some(part) = self.part(partition).filter(|part| part.moves.is_none()) else { return };
        for ahead in ahead {
            if let Ahead::Record(stored) = &ahead {
                part.bytes += size(stored);
            }
            part.ahead.push_back(ahead);
        }
        self.trouble = None;
    }

    /// Asks for a commit, where there is something to change.
    pub(super) fn commit(&mut self, positions: &Positions) -> Result<Commit, BackendError> {
        self.is_member()?;
        let (offsets, others) = self.split(positions);
        if offsets.is_empty() {
            return Ok(Commit::Done(others));
        }
        let (reply, answer) = oneshot::channel();
        let id = self.next_id;
        self.next_id += 1;
        self.commits.push_back(Asked { id, offsets, others, reply });
        Ok(Commit::Asked(id, answer))
    }

    /// What of these positions would change something, and the partitions that aren't the member's.
    pub(super) fn split(&mut self, positions: &Positions) -> (Vec<(u32, Wire)>, Vec<u32>) {
        let (mut offsets, mut others) = (Vec::new(), Vec::new());
        for position in positions.iter() {
            let to = wire(position);
            match self.part(position.partition()) {
                None => others.push(position.partition()),
                Some(part) if part.doubtful || part.committed < Some(to) => offsets.push((part.partition, to)),
                Some(_) => {}
            }
        }
        (offsets, others)
    }

    /// Takes a commit back, and says whether it wasn't sent.
    pub(super) fn withdraw(&mut self, id: u64) -> bool {
        let before = self.commits.len();
        self.commits.retain(|asked| asked.id != id);
        self.commits.len() < before
    }

    /// Takes the commits that somebody still waits for.
    pub(super) fn commits(&mut self) -> Vec<Asked> {
        self.commits.drain(..).filter(|asked| !asked.reply.is_closed()).collect()
    }

    pub(super) fn has_commits(&self) -> bool {
        !self.commits.is_empty()
    }

    /// Leaves out what changes nothing or isn't the member's any longer.
    pub(super) fn sort_out(&mut self, asked: &mut Asked) {
        let offsets = std::mem::take(&mut asked.offsets);
        for (partition, to) in offsets {
            match self.part(partition) {
                None => asked.others.push(partition),
                Some(part) if part.committed < Some(to) => asked.offsets.push((partition, to)),
                Some(_) => {}
            }
        }
    }

    /// Puts commits back that have to be sent again.
    pub(super) fn commit_again(&mut self, asked: Vec<Asked>) {
        asked.into_iter().rev().for_each(|asked| self.commits.push_front(asked));
    }

    pub(super) fn ask_unit(&mut self, asked: AskedUnit) -> Result<(), BackendError> {
        self.is_member()?;
        self.units.push_back(asked);
        Ok(())
    }

    pub(super) fn unit(&mut self) -> Option<AskedUnit> {
        self.units.pop_front()
    }

    pub(super) fn unit_again(&mut self, asked: AskedUnit) {
        self.units.push_front(asked);
    }

    pub(super) fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    /// Asks for the group's answer. What was wrong before counts no longer.
    pub(super) fn ask_arrival(&mut self, reply: oneshot::Sender<Result<(), BackendError>>) -> Result<(), BackendError> {
        self.is_member()?;
        self.trouble = None;
        self.arrivals.push(reply);
        Ok(())
    }

    /// Whether somebody still waits for the group's answer.
    pub(super) fn has_arrivals(&mut self) -> bool {
        self.arrivals.retain(|reply| !reply.is_closed());
        !self.arrivals.is_empty()
    }

    /// Tells what the group answered, or that it doesn't.
    pub(super) fn arrived(&mut self, answer: &Result<(), Fault>) {
        if answer.is_ok() {
            self.trouble = None;
        }
        for reply in self.arrivals.drain(..) {
            let _ = reply.send(answer.clone().map_err(BackendError::from));
        }
    }

    pub(super) fn ask_rewind(&mut self, reply: oneshot::Sender<Result<(), BackendError>>) -> Result<(), BackendError> {
        self.is_member()?;
        self.rewinds.push(reply);
        Ok(())
    }

    pub(super) fn rewinds(&mut self) -> Vec<oneshot::Sender<Result<(), BackendError>>> {
        std::mem::take(&mut self.rewinds)
    }

    /// Whether somebody still waits to go back.
    pub(super) fn has_rewinds(&mut self) -> bool {
        self.rewinds.retain(|reply| !reply.is_closed());
        !self.rewinds.is_empty()
    }

    /// Forgets what was read ahead of the partitions that stay, and returns from where each is read again.
    pub(super) fn rewind(&mut self) -> Vec<(u32, Option<Wire>)> {
        let stay = self.parts.iter_mut().filter(|part| part.moves.is_none());
        stay.map(|part| {
            part.forget();
            (part.partition, part.committed)
        })
        .collect()
    }

    /// The partitions of which it isn't known what is committed.
    pub(super) fn doubtful(&self) -> Vec<u32> {
        self.parts.iter().filter(|part| part.doubtful).map(|part| part.partition).collect()
    }

    pub(super) fn doubt(&mut self, partition: u32) {
        if let Some(part) = self.part(partition) {
            part.doubtful = true;
        }
    }

    /// Notes what was found to be committed.
    pub(super) fn found(&mut self, partition: u32, committed: Option<Wire>) {
        if let Some(part) = self.part(partition) {
            part.committed = committed;
            part.doubtful = false;
        }
    }

    /// Notes what was committed.
    pub(super) fn committed(&mut self, partition: u32, to: Wire) {
        if let Some(part) = self.part(partition) {
            part.committed = part.committed.max(Some(to));
        }
    }

    /// Says that records were removed before they were read. Behind the end of a log that lost its end, commits begin anew.
    pub(super) fn trimmed(&mut self, partition: u32, next: Wire, first: Wire) {
        let at = Position::new(partition, u128::try_from(first).unwrap_or(0));
        self.push(partition, [Ahead::Trimmed { after: position(partition, next), first: at }]);
        if first < next
            && let Some(part) = self.part(partition)
        {
            part.committed = part.committed.min(Some(first));
        }
    }
}

impl Part {
    fn forget(&mut self) {
        self.ahead.clear();
        self.bytes = 0;
    }
}

/// About as many bytes as a record takes.
fn size(stored: &Stored) -> usize {
    let record = &stored.record;
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    record.data.len() + record.key.as_ref().map_or(0, bytes::Bytes::len) + headers
}
