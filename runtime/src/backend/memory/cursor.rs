//! Durables: what each has handed out, and when that comes again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::log::{Log as Kept, Partition, State, failed, position, rotated};
use super::{Memory, MemoryClient};
use crate::broker::lock;
use crate::capability::{BackendError, BoundDurable, Cursors, GroupAddress, Pulled, Record, Stored, Ticket, Verdict};
use crate::error::ErrorKind;
use crate::stream::{DurableInfo, DurableSettings, Position, Positions};

/// Exhausted records that are kept for handles that haven't been told.
const TOLD: usize = 65_536;

/// Which durable was made last.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Where a record stands: its partition and offset.
type Place = (usize, u64);

#[derive(Debug)]
pub(super) struct Durable {
    /// Another one each time that one is made.
    id: u64,
    settings: DurableSettings,
    /// Of each partition the first offset that was never handed out.
    next: Vec<u64>,
    unsettled: BTreeMap<Place, Unsettled>,
    exhausted: VecDeque<Position>,
    /// How many were exhausted before those.
    forgotten: u64,
    /// The partition that the next pull begins with.
    rotation: usize,
}

#[derive(Debug)]
struct Unsettled {
    attempt: u32,
    /// When it comes again.
    due: Instant,
}

impl State {
    fn durable(&mut self, name: &str) -> Result<(&mut Durable, &[Partition]), BackendError> {
        let absent = || failed(ErrorKind::Absent, "there is no such durable; `ensure` creates it");
        Ok((self.durables.get_mut(name).ok_or_else(absent)?, &self.partitions))
    }

    fn ensure_durable(&mut self, name: &Arc<str>, settings: &DurableSettings) -> Result<bool, BackendError> {
        if let Some(durable) = self.durables.get(name) {
            let unlike = durable.settings.unlike(settings);
            return unlike.map_or(Ok(false), |text| Err(failed(ErrorKind::Conflict, text)));
        }
        let next = self.firsts(&settings.start);
        let durable = Durable {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            settings: settings.clone(),
            next,
            unsettled: BTreeMap::new(),
            exhausted: VecDeque::new(),
            forgotten: 0,
            rotation: 0,
        };
        self.durables.insert(name.clone(), durable);
        Ok(true)
    }
}

impl Durable {
    /// The first offset of a partition that isn't settled.
    pub(super) fn floor(&self, index: usize) -> u64 {
        let unsettled = self.unsettled.range((index, 0)..(index + 1, 0)).next();
        unsettled.map_or(self.next[index], |((_, offset), _)| *offset)
    }

    fn takes(&self, record: &Record) -> bool {
        self.settings.prefix.as_ref().is_none_or(|prefix| {
            let rest = record.key.as_ref().and_then(|key| key.strip_prefix(prefix.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&b'.'))
        })
    }

    /// Hands out at most so many, and tells what was exhausted since so many of those.
    fn pull(&mut self, partitions: &[Partition], max: usize, told: &mut u64) -> Vec<Pulled> {
        let now = Instant::now();
        let (mut pulled, mut trimmed) = (Vec::new(), Vec::new());
        self.again(partitions, max, now, &mut pulled);
        self.rotation = self.rotation.wrapping_add(1);
        for index in rotated(partitions.len(), self.rotation) {
            let partition = &partitions[index];
            let first = self.next[index].max(partition.first);
            let mut next = first;
            while pulled.len() < max
                && self.unsettled.len() < usize::try_from(self.settings.in_flight).unwrap_or(usize::MAX)
                && let Some(record) = partition.get(next)
            {
                // Under a prefix it isn't known whose they were.
                if self.next[index] < first && next == first && self.settings.prefix.is_none() {
                    trimmed.extend(position(index, next).map(|first| Pulled::Trimmed {
                        after:
                            self.next[index].checked_sub(1).filter(|last| *last > 0).and_then(|at| position(index, at)),
                        first,
                    }));
                }
                if self.takes(record) {
                    self.hand_out((index, next), 1, record, now, &mut pulled);
                }
                next += 1;
            }
            // What was removed is told with the next that is handed out.
            if next > first {
                self.next[index] = next;
            }
        }
        let since = usize::try_from(told.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        *told = self.exhaustions();
        self.exhausted.iter().skip(since).copied().map(Pulled::Exhausted).chain(trimmed).chain(pulled).collect()
    }

    fn exhaustions(&self) -> u64 {
        self.forgotten + self.exhausted.len() as u64
    }

    /// Hands out again what is due.
    fn again(&mut self, partitions: &[Partition], max: usize, now: Instant, pulled: &mut Vec<Pulled>) {
        let due: Vec<_> =
            self.unsettled.iter().filter(|(_, one)| one.due <= now).map(|(at, one)| (*at, one.attempt)).collect();
        for ((index, offset), attempt) in due {
            let Some(record) = partitions[index].get(offset) else {
                self.unsettled.remove(&(index, offset));
                continue;
            };
            if self.settings.max_deliver.is_some_and(|most| attempt >= most) {
                self.unsettled.remove(&(index, offset));
                self.exhausted.extend(position(index, offset));
                if self.exhausted.len() > TOLD {
                    self.exhausted.pop_front();
                    self.forgotten += 1;
                }
            } else if pulled.len() < max {
                self.hand_out((index, offset), attempt.saturating_add(1), record, now, pulled);
            }
        }
    }

    fn hand_out(&mut self, (index, offset): Place, attempt: u32, record: &Record, now: Instant, to: &mut Vec<Pulled>) {
        let Some(position) = position(index, offset) else { return };
        let due = now + self.settings.wait_of(attempt);
        self.unsettled.insert((index, offset), Unsettled { attempt, due });
        let stored = Stored { position, attempt, record: record.clone() };
        let token = Bytes::copy_from_slice(&self.id.to_le_bytes());
        to.push(Pulled::Delivery(stored, Ticket { position, token }));
    }

    fn settle(&mut self, ticket: &Ticket, verdict: &Verdict) -> Result<(), BackendError> {
        if ticket.token != self.id.to_le_bytes()[..] {
            return Err(made_anew());
        }
        let position = ticket.position;
        let place = usize::try_from(position.partition()).ok().zip(u64::try_from(position.offset()).ok());
        let Some(unsettled) = place.and_then(|place| self.unsettled.get_mut(&place)) else { return Ok(()) };
        match verdict {
            Verdict::Ack | Verdict::Term(_) => drop(place.and_then(|place| self.unsettled.remove(&place))),
            Verdict::Nak(delay) => unsettled.due = Instant::now() + *delay,
            Verdict::InProgress => unsettled.due = Instant::now() + self.settings.wait_of(unsettled.attempt),
        }
        Ok(())
    }

    fn due(&self) -> Option<Instant> {
        self.unsettled.values().map(|one| one.due).min()
    }

    fn inspect(&self, partitions: &[Partition]) -> DurableInfo {
        let waiting = partitions.iter().enumerate().map(|(index, partition)| {
            let offsets = self.next[index].max(partition.first)..partition.end();
            offsets.filter_map(|offset| partition.get(offset)).filter(|record| self.takes(record)).count() as u64
        });
        // Offsets begin at 1, so that nothing is settled below a floor of 1.
        let floors = (0..partitions.len()).map(|index| (index, self.floor(index))).filter(|(_, floor)| *floor > 1);
        let settled: Positions = floors.filter_map(|(index, floor)| position(index, floor - 1)).collect();
        DurableInfo::new(self.settings.clone(), waiting.sum(), self.unsettled.len() as u64, settled)
    }
}

fn made_anew() -> BackendError {
    failed(ErrorKind::Absent, "the durable is another one that was made anew; what was handed out before is gone")
}

/// What a handle knows of its durable.
#[derive(Debug)]
struct Bound {
    /// Which one it is, until it is told that this is gone.
    id: Option<u64>,
    /// How many exhausted records it was told of, with those before it was bound.
    told: u64,
}

/// A handle to a durable of [`Memory`].
#[derive(Debug)]
pub struct MemoryDurable {
    client: MemoryClient,
    log: Arc<Kept>,
    name: Arc<str>,
    bound: Mutex<Bound>,
}

impl MemoryDurable {
    /// Takes what is there. A durable that was made anew is told once, before what it hands out.
    fn take(&self, max: usize) -> Result<(Vec<Pulled>, Option<Instant>), BackendError> {
        self.client.reachable()?;
        let bound = &mut *lock(&self.bound);
        self.log.with(|state| {
            let (durable, partitions) = state.durable(&self.name).inspect_err(|_| bound.id = None)?;
            if bound.id != Some(durable.id) {
                let last = std::mem::replace(bound, Bound { id: Some(durable.id), told: 0 });
                if last.id.is_some() {
                    return Err(made_anew());
                }
            }
            Ok((durable.pull(partitions, max, &mut bound.told), durable.due()))
        })
    }
}

impl BoundDurable for MemoryDurable {
    async fn pull(&self, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        let until = Instant::now().checked_add(wait);
        let look = || self.take(max);
        let mut left = Duration::ZERO;
        let mut known = None;
        loop {
            let found = |(pulled, due): &(Vec<Pulled>, Option<Instant>)| !pulled.is_empty() || *due != known;
            let (pulled, due) = self.client.wait(&self.log, left, look, found).await?;
            let now = Instant::now();
            left = until.map_or(wait, |until| until.saturating_duration_since(now));
            if !pulled.is_empty() || left.is_zero() {
                return Ok(pulled);
            }
            known = due;
            // What is due comes when its time has passed, not before.
            left = due.map_or(left, |due| left.min(due.saturating_duration_since(now) + Duration::from_millis(1)));
        }
    }

    async fn settle(&self, settlements: Vec<(Ticket, Verdict)>) -> Vec<Result<(), BackendError>> {
        tokio::task::coop::consume_budget().await;
        let settle = |(ticket, verdict): &(Ticket, Verdict)| {
            self.client.reachable()?;
            self.log.with(|state| state.durable(&self.name)?.0.settle(ticket, verdict))
        };
        let settled = settlements.iter().map(settle).collect();
        self.log.changed.notify_waiters();
        settled
    }

    // A pull takes what it returns.
    async fn release(&self) {}
}

impl Cursors for Memory {
    type Durable = MemoryDurable;

    async fn ensure_durable(
        client: &MemoryClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<bool, BackendError> {
        client.reach(durable.stream()).await?.with(|state| state.ensure_durable(durable.name(), settings))
    }

    async fn update_durable(
        client: &MemoryClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<(), BackendError> {
        let log = client.reach(durable.stream()).await?;
        log.with(|state| {
            let (durable, _) = state.durable(durable.name())?;
            durable.settings = settings.clone().start(durable.settings.start.clone());
            Ok(())
        })?;
        log.changed.notify_waiters();
        Ok(())
    }

    async fn delete_durable(client: &MemoryClient, durable: &GroupAddress) -> Result<bool, BackendError> {
        let log = client.reach(durable.stream()).await?;
        let gone = log.with(|state| Ok(state.durables.remove(durable.name())))?;
        log.changed.notify_waiters();
        Ok(gone.is_some())
    }

    async fn inspect_durable(client: &MemoryClient, durable: &GroupAddress) -> Result<DurableInfo, BackendError> {
        client.reach(durable.stream()).await?.with(|state| {
            let (durable, partitions) = state.durable(durable.name())?;
            Ok(durable.inspect(partitions))
        })
    }

    async fn bind_durable(client: &MemoryClient, durable: &GroupAddress) -> Result<MemoryDurable, BackendError> {
        let log = client.reach(durable.stream()).await?;
        let bound = log.with(|state| {
            let (durable, _) = state.durable(durable.name())?;
            Ok(Mutex::new(Bound { id: Some(durable.id), told: durable.exhaustions() }))
        })?;
        Ok(MemoryDurable { client: client.clone(), log: log.clone(), name: durable.name().clone(), bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Broker, Config, Cursor, DurableOwner, ErrorKind as Kind, Namespace, Stream, StreamSettings,
        backend::AnyBackend, stream_spec,
    };

    #[derive(crate::TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
    #[topic_key(crate = crate)]
    struct Place {
        group: String,
        n: u32,
    }

    #[stream_spec(name = "cursor.notes", version = 1, key = Place, requires(cursors), crate = crate)]
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Note {
        n: u32,
    }

    const SECOND: Duration = Duration::from_secs(1);

    async fn notes() -> Stream<Note, AnyBackend> {
        let namespace = Namespace::new("cursor", "test").unwrap();
        let broker = Broker::new(AnyBackend::from(Memory::new()), Config::new(namespace)).unwrap();
        let notes = Note::stream(&broker).unwrap();
        notes.ensure(StreamSettings::new()).await.unwrap();
        for n in 1..=4 {
            notes.append(&Place { group: format!("k{}", n % 2), n }, &Note { n }).await.unwrap();
        }
        notes
    }

    fn owner() -> DurableOwner {
        DurableOwner::module("billing").unwrap()
    }

    async fn bound(notes: &Stream<Note, AnyBackend>, settings: DurableSettings) -> Cursor<Note, AnyBackend> {
        assert!(notes.durable(&owner()).unwrap().ensure(settings).await.unwrap());
        notes.cursor(&owner()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_count_naks_and_ack_waits_that_are_over() {
        let notes = notes().await;
        let mut cursor = bound(&notes, DurableSettings::new().ack_wait(SECOND)).await;
        let first = cursor.next().await.unwrap();
        assert_eq!((first.value().unwrap().n, first.attempt()), (1, 1));
        first.nak(SECOND * 5).await.unwrap();
        let before = Instant::now();
        assert!(cursor.next_within(SECOND * 4).await.unwrap().is_none(), "nothing overtakes");
        let first = cursor.next().await.unwrap();
        assert_eq!((first.value().unwrap().n, first.attempt()), (1, 2));
        assert!(before.elapsed() >= SECOND * 5);
        drop(first);
        let first = cursor.next().await.unwrap();
        assert_eq!(first.attempt(), 3);
        tokio::time::advance(Duration::from_millis(900)).await;
        first.in_progress().await.unwrap();
        tokio::time::advance(Duration::from_millis(900)).await;
        first.ack().await.unwrap();
        let second = cursor.next().await.unwrap();
        assert_eq!((second.value().unwrap().n, second.attempt()), (2, 1));
        second.term("it is of no use").await.unwrap();
        let info = cursor.durable().info().await.unwrap();
        assert_eq!((info.waiting, info.in_flight), (2, 0));
        assert_eq!(info.settled.get(0).map(Position::offset), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_never_settled_is_told_and_the_rest_goes_on() {
        let notes = notes().await;
        let settings = DurableSettings::new().max_deliver(2).backoff([SECOND, SECOND * 3]).under::<Place>(("k0",));
        let mut cursor = bound(&notes, settings).await;
        for attempt in 1..=2 {
            let next = cursor.next().await.unwrap();
            assert_eq!((next.value().unwrap().n, next.attempt()), (2, attempt));
        }
        let told = cursor.next().await.unwrap_err();
        assert_eq!((told.kind(), told.position().map(Position::offset)), (Kind::Undelivered, Some(2)));
        let next = cursor.next().await.unwrap();
        assert_eq!((next.value().unwrap().n, next.attempt()), (4, 1));
        next.ack().await.unwrap();
        assert!(cursor.next_within(SECOND).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_durable_that_goes_ends_its_cursors() {
        let notes = notes().await;
        assert_eq!(notes.cursor(&owner()).await.unwrap_err().kind(), Kind::Absent);
        let mut cursor = bound(&notes, DurableSettings::new()).await;
        let durable = cursor.durable().clone();
        let conflict = durable.ensure(DurableSettings::new().in_flight(2)).await.unwrap_err();
        assert_eq!(conflict.kind(), Kind::Conflict);
        cursor.next().await.unwrap().term("a\nb").await.unwrap_err();
        let (next, gone) = tokio::join!(cursor.next(), durable.delete());
        assert!(gone.unwrap());
        assert_eq!(next.unwrap_err().kind(), Kind::Absent);
        durable.ensure(DurableSettings::new().in_flight(2)).await.unwrap();
        assert_eq!(notes.cursor(&owner()).await.unwrap_err().kind(), Kind::Conflict);
        durable.update(DurableSettings::new()).await.unwrap();
        assert_eq!(notes.cursor(&owner()).await.unwrap().next().await.unwrap().attempt(), 1);
    }
}
