use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::commit::CommitGroup;
use super::cursor::Durable;
use super::group::Group;
use crate::broker::lock;
use crate::capability::{BackendError, Read, Record, Stored, partition_of};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{MessageId, Position, Positions, Receipt, Start, Storage, StreamSettings};

/// The streams of one [`Memory`](super::Memory), made when they are first named.
pub(super) type Logs = HashMap<Arc<str>, Arc<Log>>;

/// One stream, there or not.
#[derive(Debug, Default)]
pub(super) struct Log {
    state: Mutex<Option<State>>,
    /// Where a stream that was removed ended: one that is made anew goes on there, so that positions never come again.
    ended: AtomicU64,
    /// Told when something was appended, when the stream or a group goes, and when connections are lost.
    pub(super) changed: Notify,
    /// How many wait for it, so that an append without them needn't tell.
    pub(super) waiting: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct State {
    settings: StreamSettings,
    pub(super) partitions: Vec<Partition>,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    pub(super) commit_groups: BTreeMap<Arc<str>, CommitGroup>,
    pub(super) durables: BTreeMap<Arc<str>, Durable>,
    /// The partition of the next record without a key.
    turn: u32,
    /// The partition that the next read begins with.
    rotation: usize,
    ids: HashMap<MessageId, Position>,
    /// The ids by age.
    remembered: VecDeque<(Instant, MessageId)>,
}

/// Records with consecutive offsets, of which the oldest may be gone.
#[derive(Debug)]
pub(super) struct Partition {
    /// The offset of the first record that there ever was, or will be.
    pub(super) began: u64,
    /// The first record's offset; offsets begin at 1.
    pub(super) first: u64,
    records: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// When it was appended, by the wall clock of who appended it, and never before the record before it.
    at: SystemTime,
    /// The same by the clock that waits go by, where the stream keeps records for a time.
    since: Option<Instant>,
    record: Record,
}

pub(super) fn failed(kind: ErrorKind, text: impl Into<String>) -> BackendError {
    BackendError::new(kind, Outcome::NotApplied).with_source(text.into())
}

pub(super) fn absent() -> BackendError {
    failed(ErrorKind::Absent, "there is no such stream; `ensure` creates it")
}

impl Log {
    /// Locks the stream, which may not be there.
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        lock(&self.state)
    }

    /// Works on the stream, where it is there.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> Result<R, BackendError>) -> Result<R, BackendError> {
        work(lock(&self.state).as_mut().ok_or_else(absent)?)
    }

    pub(super) fn ensure(&self, settings: &StreamSettings) -> Result<(), BackendError> {
        let settings = admitted(settings)?;
        let first = self.ended.load(Ordering::Acquire) + 1;
        match &mut *lock(&self.state) {
            Some(state) if state.settings == settings => Ok(()),
            Some(state) => Err(failed(ErrorKind::Conflict, unlike(&state.settings, &settings))),
            none => {
                *none = Some(State {
                    partitions: (0..settings.partitions)
                        .map(|_| Partition { began: first, first, records: VecDeque::new() })
                        .collect(),
                    settings,
                    groups: BTreeMap::new(),
                    commit_groups: BTreeMap::new(),
                    durables: BTreeMap::new(),
                    turn: 0,
                    rotation: 0,
                    ids: HashMap::new(),
                    remembered: VecDeque::new(),
                });
                Ok(())
            }
        }
    }

    pub(super) fn update(&self, settings: &StreamSettings) -> Result<(), BackendError> {
        let settings = admitted(settings)?;
        self.with(|state| {
            if state.settings.partitions != settings.partitions {
                let text = "a stream keeps its `partitions`; delete it to have others";
                return Err(failed(ErrorKind::Conflict, text));
            }
            state.settings = settings;
            Ok(())
        })
    }

    pub(super) fn delete(&self) -> bool {
        let gone = lock(&self.state).take();
        if let Some(end) = gone.iter().flat_map(|state| &state.partitions).map(Partition::end).max() {
            self.ended.store(end, Ordering::Release);
        }
        self.changed.notify_waiters();
        gone.is_some()
    }

    pub(super) fn append(&self, record: Record, now: SystemTime) -> Result<Receipt, BackendError> {
        let receipt = lock(&self.state).as_mut().ok_or_else(absent)?.append(record, now);
        // Whoever looked before this append has counted itself before it looked.
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.changed.notify_waiters();
        }
        Ok(receipt)
    }

    pub(super) fn window(&self) -> Result<Duration, BackendError> {
        self.with(|state| Ok(state.settings.dedup_window))
    }

    pub(super) fn start(&self, start: &Start) -> Result<Positions, BackendError> {
        self.with(|state| Ok(state.start(start)))
    }

    pub(super) fn read(&self, after: &Positions, max: usize) -> Result<Read, BackendError> {
        self.with(|state| Ok(state.read(after, max)))
    }
}

/// The settings as they are kept, where memory can have them.
fn admitted(settings: &StreamSettings) -> Result<StreamSettings, BackendError> {
    if settings.replicas.is_some() {
        return Err(failed(ErrorKind::Unsupported, "memory keeps no copies; leave `replicas` out"));
    }
    if settings.storage == Some(Storage::File) {
        return Err(failed(ErrorKind::Unsupported, "memory has no files; leave `storage` out"));
    }
    Ok(StreamSettings { storage: None, ..settings.clone() })
}

/// Says which settings of a stream that is there differ, and what can be done.
fn unlike(there: &StreamSettings, here: &StreamSettings) -> String {
    fn shown<T: std::fmt::Debug>(set: Option<T>) -> String {
        set.map_or_else(|| "not set".to_owned(), |set| format!("{set:?}"))
    }
    let [there_said, here_said] = [there, here].map(|it| {
        [
            ("partitions", it.partitions.to_string()),
            ("max_len", shown(it.max_len)),
            ("max_age", shown(it.max_age)),
            ("dedup_window", shown(Some(it.dedup_window))),
        ]
    });
    let differences: Vec<_> = (there_said.iter().zip(&here_said))
        .filter(|(there, here)| there != here)
        .map(|((name, there), (_, here))| format!("`{name}` is {there} there and {here} here"))
        .collect();
    // What `update` can't change isn't worth a try.
    let update = if there.partitions == here.partitions { "update it, " } else { "" };
    format!("{}; {update}ask for that, or delete it first", differences.join(", "))
}

impl State {
    pub(super) fn append(&mut self, record: Record, now: SystemTime) -> Receipt {
        let id = if record.once { record.id.clone() } else { None };
        if let Some(id) = &id {
            self.forget();
            if let Some(position) = self.ids.get(id) {
                return Receipt::new(Some(*position), true);
            }
        }
        let count = self.settings.partitions;
        let index = match &record.key {
            _ if count == 1 => 0,
            Some(key) => partition_of(key, count),
            None => {
                self.turn = (self.turn + 1) % count;
                self.turn
            }
        };
        let since = self.settings.max_age.map(|_| Instant::now());
        let partition = &mut self.partitions[index as usize];
        let at = partition.records.back().map_or(now, |last| last.at.max(now));
        partition.records.push_back(Kept { at, since, record });
        let position = Position::new(index, u128::from(partition.end() - 1));
        if let Some(most) = self.settings.max_len {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            partition.remove_oldest(partition.records.len().saturating_sub(most));
        }
        if let (Some(age), Some(now)) = (self.settings.max_age, since) {
            let old = |kept: &Kept| kept.since.is_some_and(|since| now.duration_since(since) > age);
            let count = partition.records.iter().take_while(|kept| old(kept)).count();
            partition.remove_oldest(count);
        }
        if let Some(id) = id {
            self.ids.insert(id.clone(), position);
            self.remembered.push_back((Instant::now(), id));
        }
        Receipt::new(Some(position), false)
    }

    /// Forgets the ids whose window has passed.
    fn forget(&mut self) {
        let now = Instant::now();
        let window = self.settings.dedup_window;
        while let Some((_, id)) = self.remembered.pop_front_if(|(since, _)| now.duration_since(*since) >= window) {
            self.ids.remove(&id);
        }
    }

    pub(super) fn start(&self, start: &Start) -> Positions {
        let before = |from: &dyn Fn(&Partition) -> u64| {
            let offsets = self.partitions.iter().enumerate().map(|(index, partition)| (index, from(partition)));
            offsets.filter_map(|(index, next)| position(index, next.checked_sub(1)?)).collect()
        };
        match start {
            Start::Earliest => Positions::new(),
            Start::Latest => before(&Partition::end),
            Start::At(time) => before(&|partition| partition.at(*time)),
            Start::After(positions) => positions.clone(),
        }
    }

    /// The first offset of each partition that comes after a start.
    pub(super) fn firsts(&self, start: &Start) -> Vec<u64> {
        let after = self.start(start);
        let first = |(index, partition): (usize, &Partition)| {
            let after = position(index, 0).and_then(|start| after.get(start.partition()));
            let next = after.map_or(0, |after| u64::try_from(after.offset()).unwrap_or(u64::MAX).saturating_add(1));
            // What is gone can't be handed out, and what isn't there yet is the next.
            next.clamp(partition.first, partition.end())
        };
        self.partitions.iter().enumerate().map(first).collect()
    }

    fn read(&mut self, after: &Positions, max: usize) -> Read {
        let mut records = Vec::new();
        // Another partition comes first each time, so that a busy one hides none.
        self.rotation = self.rotation.wrapping_add(1);
        for index in rotated(self.partitions.len(), self.rotation) {
            let partition = &self.partitions[index];
            let from = match position(index, 0).and_then(|start| after.get(start.partition())) {
                None => partition.first,
                Some(after) => u64::try_from(after.offset()).unwrap_or(u64::MAX).saturating_add(1),
            };
            if from < partition.first
                && let Some(first) = position(index, partition.first)
            {
                return Read::Trimmed { first, certain: true };
            }
            let left = max - records.len();
            let there = usize::try_from(partition.end().saturating_sub(from)).unwrap_or(usize::MAX);
            records.reserve(left.min(there));
            records.extend(partition.stored(index, from).take(left));
        }
        Read::Records(records)
    }
}

/// The places of so many, in order, from one on.
pub(super) fn rotated(count: usize, first: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| (first % count + index) % count)
}

/// A partition's number fits: a stream has at most 1,024.
pub(super) fn position(partition: usize, offset: u64) -> Option<Position> {
    Some(Position::new(u32::try_from(partition).ok()?, u128::from(offset)))
}

impl Partition {
    /// The offset that the next record gets.
    pub(super) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// The position before an offset, unless there never was one.
    pub(super) fn last_before(&self, index: usize, offset: u64) -> Option<Position> {
        position(index, offset.checked_sub(1).filter(|last| *last >= self.began)?)
    }

    pub(super) fn get(&self, offset: u64) -> Option<&Record> {
        let index = usize::try_from(offset.checked_sub(self.first)?).ok()?;
        self.records.get(index).map(|kept| &kept.record)
    }

    /// Removes the records below an offset, and says how many.
    pub(super) fn remove_below(&mut self, offset: u64) -> u64 {
        let below = offset.saturating_sub(self.first).min(self.records.len() as u64);
        self.remove_oldest(usize::try_from(below).unwrap_or(usize::MAX));
        below
    }

    fn remove_oldest(&mut self, count: usize) {
        // Most often it is one, for which a drain costs more.
        for _ in 0..count {
            self.records.pop_front();
        }
        self.first += count as u64;
    }

    /// The offset of the first record appended at this time or later.
    fn at(&self, time: SystemTime) -> u64 {
        self.first + self.records.partition_point(|kept| kept.at < time) as u64
    }

    pub(super) fn stored(&self, index: usize, from: u64) -> impl Iterator<Item = Stored> + '_ {
        let from = from.min(self.end());
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let kept = self.records.range(skipped..);
        let partition = u32::try_from(index).unwrap_or(u32::MAX);
        kept.zip(from..).map(move |(kept, offset)| Stored {
            position: Position::new(partition, u128::from(offset)),
            attempt: 1,
            record: kept.record.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_there_otherwise_says_where_and_what_to_do() {
        let log = Log::default();
        let made = StreamSettings::new().max_len(10);
        log.ensure(&made).unwrap();
        let refused = |settings: StreamSettings| {
            let failed = log.ensure(&settings).unwrap_err();
            assert_eq!(failed.kind, ErrorKind::Conflict);
            failed.source.unwrap().to_string()
        };
        let said = refused(StreamSettings::new().max_age(Duration::from_mins(1)));
        let text = "`max_len` is 10 there and not set here, `max_age` is not set there and 60s here; update it, ask for \
                    that, or delete it first";
        assert_eq!(said, text);
        let said = refused(made.partitions(3));
        assert_eq!(said, "`partitions` is 1 there and 3 here; ask for that, or delete it first");
    }
}
