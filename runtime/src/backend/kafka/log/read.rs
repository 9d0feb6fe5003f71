//! Reading after positions.
//!
//! A read is served by a thread with a consumer of its own, which stays where it stopped for a while: a read that goes on
//! there finds what the consumer has fetched ahead.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::client::{Clients, News, SLICE};
use super::super::fault::{Fault, code_of};
use super::super::settings::FETCH_WAIT;
use super::manage::offsets;
use super::{StreamState, record, state};
use crate::broker::lock;
use crate::capability::{Read, Stored, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Positions};

/// Plain reads belong to no group, but the library wants a name.
const GROUP: &str = "tidings-reader";
/// A read that goes on so soon after the last one needn't look at the log's ends first.
const AT_ONCE: Duration = Duration::from_millis(5);
/// A consumer fetches ahead for so long after its last read.
const AHEAD: Duration = Duration::from_secs(1);
/// An idle consumer is kept for so long.
const KEPT: Duration = Duration::from_secs(10);
/// With so many idle ones another isn't made.
const SPARE: usize = 4;
/// How often it is looked whether a position that isn't there yet has come.
const LOOK: Duration = Duration::from_millis(500);
/// An answer that is old when it comes is asked for so often.
const MOST_LOOKS: usize = 16;
/// So much that a consumer has told while nobody asked is left out at once.
const MOST_NEWS: usize = 4_096;
/// Further off than anyone can wait is as good as that.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365);

/// The threads that read for one broker.
pub(in super::super) struct Readers {
    most: usize,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    stopped: bool,
    running: usize,
    next: u64,
    /// The one that was used last comes last.
    idle: Vec<Idle>,
}

struct Idle {
    id: u64,
    mailbox: SyncSender<Job>,
    at: Option<At>,
}

/// Where a consumer stands, as its last read left it.
#[derive(Clone, PartialEq, Eq)]
struct At {
    topic: Arc<str>,
    after: Positions,
}

/// One read.
struct Job {
    state: Arc<StreamState>,
    partitions: u32,
    after: Positions,
    max: usize,
    until: Instant,
    tell: oneshot::Sender<Result<Read, Fault>>,
}

impl Job {
    fn at(&self) -> At {
        At { topic: self.state.topic.clone(), after: self.after.clone() }
    }
}

impl Readers {
    pub(in super::super) fn new(most: usize) -> Self {
        Self { most, pool: Mutex::default() }
    }

    /// Lets idle threads end, and others when they have noticed.
    pub(in super::super) fn stop(&self) {
        let mut pool = lock(&self.pool);
        pool.stopped = true;
        pool.idle.clear();
    }

    /// Hands a read to the thread that fits best, or to another one.
    fn submit(clients: &Arc<Clients>, mut job: Job) -> Result<(), Fault> {
        let readers = &clients.readers;
        let mut pool = lock(&readers.pool);
        loop {
            if pool.stopped {
                return Err(Fault::closed(Outcome::NotApplied));
            }
            let at = job.at();
            let chosen = pool.idle.iter().rposition(|idle| idle.at.as_ref() == Some(&at));
            let chosen = chosen.or_else(|| pool.idle.iter().rposition(|idle| idle.at.is_none()));
            let full = pool.running >= readers.most || pool.idle.len() >= SPARE;
            let chosen = chosen.or((full && !pool.idle.is_empty()).then_some(0));
            let Some(chosen) = chosen else { break };
            // An idle thread's mailbox is empty; one that has ended gives the read back.
            match pool.idle.remove(chosen).mailbox.try_send(job) {
                Ok(()) => return Ok(()),
                Err(std::sync::mpsc::TrySendError::Full(back) | std::sync::mpsc::TrySendError::Disconnected(back)) => {
                    job = back;
                }
            }
        }
        if pool.running >= readers.most {
            let text = format!("{} reads are under way; raise `subscriptions`", readers.most);
            return Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text));
        }
        pool.running += 1;
        let id = pool.next;
        pool.next += 1;
        drop(pool);
        let running = Running(clients.clone());
        clients.thread("kafka reader", move || {
            let mut reader = Reader { clients: running.0.clone(), consumer: None, at: None };
            reader.serve(job);
            loop {
                let (mailbox, jobs) = sync_channel(1);
                if !running.0.readers.rest(Idle { id, mailbox, at: reader.at() }) {
                    return;
                }
                let next = jobs.recv_timeout(if reader.at.is_some() { AHEAD } else { KEPT });
                // Where another has just taken it out of the idle ones, a read is on its way.
                let next = match next {
                    Err(RecvTimeoutError::Timeout) if !running.0.readers.wake(id) => jobs.recv().map_err(Into::into),
                    next => next,
                };
                match next {
                    Ok(job) => reader.serve(job),
                    Err(RecvTimeoutError::Timeout) if reader.at.is_some() => reader.let_go(),
                    Err(_) => return,
                }
            }
        })
    }

    /// Counts a thread among the idle ones, unless the broker closes.
    fn rest(&self, idle: Idle) -> bool {
        let mut pool = lock(&self.pool);
        if pool.stopped {
            return false;
        }
        pool.idle.push(idle);
        true
    }

    /// Takes a thread out of the idle ones. Says no where a read has been handed to it.
    fn wake(&self, id: u64) -> bool {
        let mut pool = lock(&self.pool);
        let found = pool.idle.iter().position(|idle| idle.id == id);
        found.map(|found| pool.idle.remove(found)).is_some()
    }
}

/// Counts a thread as running while it lasts.
struct Running(Arc<Clients>);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.readers.pool).running -= 1;
    }
}

pub(in super::super) async fn read(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    after: &Positions,
    max: usize,
    wait: Duration,
) -> Result<Read, Fault> {
    let until = Instant::now() + wait.min(LONGEST_WAIT);
    let state = state(stream);
    let partitions = state.layout(clients).await?.partitions;
    let (tell, told) = oneshot::channel();
    let job = Job { state: state.clone(), partitions, after: after.clone(), max, until, tell };
    Readers::submit(clients, job)?;
    let closing = clients.host.closing();
    tokio::pin!(closing, told);
    std::future::poll_fn(|cx| {
        use std::task::Poll;
        if let Poll::Ready(read) = told.as_mut().poll(cx) {
            return Poll::Ready(read.unwrap_or_else(|_| {
                Err(if clients.stopped() {
                    Fault::closed(Outcome::NotApplied)
                } else {
                    Fault::unreachable("a thread of Kafka's client panicked")
                })
            }));
        }
        closing.as_mut().poll(cx).map(|()| Err(Fault::closed(Outcome::NotApplied)))
    })
    .await
    .inspect_err(|fault| state.learn(fault))
}

/// One thread's consumer, and where it stands.
struct Reader {
    clients: Arc<Clients>,
    consumer: Option<BaseConsumer<News>>,
    /// Where the consumer goes on, where it has partitions.
    at: Option<Standing>,
}

/// What a consumer is assigned.
struct Standing {
    at: At,
    /// The offset that comes next, of each partition.
    next: Vec<i64>,
    /// Up to where nothing is left to be read, of each partition: what is behind `next` may be a transaction's markers, or
    /// compacted.
    void: Vec<i64>,
    /// Whether every partition is assigned, and none is waited for that isn't there yet.
    whole: bool,
    /// Whether something should be there that didn't come.
    doubted: bool,
    /// When the consumer was last asked.
    since: Instant,
}

/// Where a log begins and ends.
enum Ends {
    /// Nothing is lost: what comes next in each partition, and where each ends.
    At {
        next: Vec<i64>,
        ends: Vec<i64>,
    },
    Trimmed {
        first: Position,
    },
}

/// When a read has enough, beside as many records as it may have.
enum Enough {
    /// The first record, and what is there with it.
    First,
    /// All up to these ends, or what comes of it soon: some of it may be no records.
    Soon(Vec<i64>),
    /// All up to these ends.
    Up(Vec<i64>),
}

impl Enough {
    fn until(&self, clients: &Clients) -> Instant {
        Instant::now() + if matches!(self, Self::Soon(_)) { FETCH_WAIT * 2 } else { clients.host.limits().timeout }
    }
}

/// What stopped a read.
enum Stop {
    /// Nobody waits for it any more.
    GivenUp,
    Failed(Fault),
    /// Offsets are gone: the ends have to be looked at.
    Look,
    /// The consumer knows no such topic, or only the one that was there before: another consumer may know better.
    Stale(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl Reader {
    fn at(&self) -> Option<At> {
        self.at.as_ref().map(|standing| standing.at.clone())
    }

    fn serve(&mut self, job: Job) {
        let mut records = Vec::new();
        let read = match self.run(&job, &mut records) {
            Ok(read) => Ok(read),
            Err(Stop::GivenUp) => {
                self.let_go();
                return;
            }
            // What was read before is told, and the failure by the next read if it lasts.
            Err(Stop::Failed(_) | Stop::Look | Stop::Stale(_)) if !records.is_empty() => {
                self.let_go();
                Ok(Read::Records(records))
            }
            Err(Stop::Failed(fault) | Stop::Stale(fault)) => {
                self.let_go();
                Err(fault)
            }
            Err(Stop::Look) => Err(Fault::unreachable("what is to be read changes all the time")),
        };
        if job.tell.send(read).is_err() {
            // What was read was for nobody.
            self.let_go();
        }
    }

    /// Gives the partitions up, so that nothing is fetched ahead any more.
    fn let_go(&mut self) {
        if self.at.take().is_some()
            && let Some(consumer) = &self.consumer
        {
            // It has no other reason to fail than one that the next assignment tells.
            let _ = consumer.unassign();
        }
    }

    fn run(&mut self, job: &Job, records: &mut Vec<Stored>) -> Result<Read, Stop> {
        let at = job.at();
        let here = |standing: &Standing| standing.whole && standing.at == at && standing.since.elapsed() < AT_ONCE;
        let mut found = Ok(());
        if self.at.as_ref().is_some_and(here) {
            // Whatever is on its way comes without a look.
            found = self.gather(job, &Enough::First, job.until, records);
        }
        let mut looks = 0;
        loop {
            match found {
                Ok(()) if !records.is_empty() => return Ok(Read::Records(std::mem::take(records))),
                Ok(()) => {}
                Err(Stop::Look) if records.is_empty() && looks < MOST_LOOKS => {
                    looks += 1;
                    self.let_go();
                }
                Err(Stop::Stale(_))
                    if records.is_empty() && (looks < MOST_LOOKS || self.clients.recent.is_made(&job.state.topic)) =>
                {
                    looks += 1;
                    self.at = None;
                    self.consumer = None;
                }
                Err(stop) => return Err(stop),
            }
            let ends = match self.ends(job)? {
                Ends::At { next, ends } => (next, ends),
                Ends::Trimmed { first } => return Ok(Read::Trimmed { first, certain: true }),
            };
            found = match self.stand(job, ends)? {
                // Nothing is there, and the time is up.
                None if Instant::now() >= job.until => return Ok(Read::Records(Vec::new())),
                None => {
                    // A position that isn't there yet is looked for again and again.
                    let whole = self.at.as_ref().is_some_and(|standing| standing.whole);
                    let until = if whole { job.until } else { job.until.min(Instant::now() + LOOK) };
                    self.gather(job, &Enough::First, until, records)
                }
                Some(enough) => self.gather(job, &enough, enough.until(&self.clients), records),
            };
        }
    }

    /// Looks where the log begins and ends, and where reading is to go on.
    fn ends(&self, job: &Job) -> Result<Ends, Stop> {
        let firsts = offsets(&self.clients, &job.state, job.partitions, Offset::Beginning)?;
        let ends = offsets(&self.clients, &job.state, job.partitions, Offset::End)?;
        let mut next = Vec::with_capacity(firsts.len());
        for (partition, first) in (0..).zip(firsts) {
            let after = job.after.get(partition).map(|after| i64::try_from(after.offset()).unwrap_or(i64::MAX));
            let wanted = after.map(|after| after.saturating_add(1));
            if wanted.is_some_and(|wanted| wanted < first) {
                return Ok(Ends::Trimmed { first: Position::new(partition, u128::try_from(first).unwrap_or(0)) });
            }
            next.push(wanted.unwrap_or(first));
        }
        Ok(Ends::At { next, ends })
    }

    /// Stands where reading is to go on. Says what is there to be read, if anything.
    fn stand(&mut self, job: &Job, (next, ends): (Vec<i64>, Vec<i64>)) -> Result<Option<Enough>, Stop> {
        let at = job.at();
        if let Some(standing) = &mut self.at
            && standing.whole
            && standing.at == at
            && standing.next == next
        {
            let left = standing.void.iter().zip(&ends).any(|(void, end)| void < end);
            // Once it didn't come from there, it is read anew from where it should be.
            let again = std::mem::replace(&mut standing.doubted, left);
            if !left {
                return Ok(None);
            }
            if !again {
                return Ok(Some(Enough::Soon(ends)));
            }
        }
        let left = next.iter().zip(&ends).any(|(next, end)| next < end);
        if !left && Instant::now() >= job.until {
            return Ok(None);
        }
        self.assign(job, next, &ends)?;
        Ok(left.then_some(Enough::Up(ends)))
    }

    /// Assigns the partitions from these offsets on.
    fn assign(&mut self, job: &Job, next: Vec<i64>, ends: &[i64]) -> Result<(), Stop> {
        self.let_go();
        let consumer = if let Some(consumer) = &self.consumer {
            consumer
        } else {
            let config = self.clients.settings.consumer(self.clients.host.limits(), GROUP);
            let made = config.create_with_context(self.clients.news()).map_err(|error| Fault::of(&error))?;
            self.consumer.insert(made)
        };
        // What it has told since it was last asked is of an outage, say, that may be over. The ends were looked at since.
        for _ in 0..MOST_NEWS {
            if consumer.poll(Duration::ZERO).is_none() {
                break;
            }
        }
        let mut partitions = TopicPartitionList::new();
        // No partition always comes first.
        let first = job.state.turn();
        let mut whole = true;
        for step in 0..next.len() {
            let partition = (first + step) % next.len();
            // The server would refuse what is behind the end.
            if next[partition] > ends[partition] {
                whole = false;
                continue;
            }
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            let added = partitions.add_partition_offset(&job.state.topic, number, Offset::Offset(next[partition]));
            added.map_err(|error| Fault::of(&error))?;
        }
        consumer.assign(&partitions).map_err(|error| Fault::of(&error))?;
        self.at =
            Some(Standing { at: job.at(), void: next.clone(), next, whole, doubted: false, since: Instant::now() });
        Ok(())
    }

    /// Takes what comes until there is enough or the time is up.
    fn gather(&mut self, job: &Job, enough: &Enough, until: Instant, records: &mut Vec<Stored>) -> Result<(), Stop> {
        let (Some(consumer), Some(standing)) = (&self.consumer, &mut self.at) else { return Err(Stop::Look) };
        let mut copies = record::Copies::default();
        while records.len() < job.max {
            if job.tell.is_closed() {
                return Err(Stop::GivenUp);
            }
            if self.clients.stopped() {
                return Err(Fault::closed(Outcome::NotApplied).into());
            }
            let left = until.saturating_duration_since(Instant::now());
            let left = match enough {
                Enough::First if records.is_empty() => left,
                Enough::First => Duration::ZERO,
                Enough::Soon(ends) | Enough::Up(ends) => {
                    if standing.void.iter().zip(ends).all(|(void, end)| void >= end) {
                        break;
                    }
                    if left.is_zero() && matches!(enough, Enough::Up(_)) {
                        return Err(Fault::timeout(Outcome::NotApplied).into());
                    }
                    left
                }
            };
            match consumer.poll(left.min(SLICE)) {
                None if left.is_zero() => break,
                None => {}
                Some(Ok(message)) => {
                    let (Ok(partition), Ok(offset)) =
                        (u32::try_from(message.partition()), u64::try_from(message.offset()))
                    else {
                        continue;
                    };
                    let position = Position::new(partition, u128::from(offset));
                    let place = partition as usize;
                    if let (Some(next), Some(void)) = (standing.next.get_mut(place), standing.void.get_mut(place)) {
                        *next = message.offset().saturating_add(1);
                        *void = *next;
                    }
                    standing.doubted = false;
                    standing.at.after.advance(position);
                    let record = record::read(&job.state.known, &message, &mut copies);
                    records.push(Stored { position, attempt: 1, record });
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    let place = usize::try_from(partition).unwrap_or(usize::MAX);
                    // The partition was assigned after its end was looked at, so there is nothing up to there.
                    if let Enough::Up(ends) = enough
                        && let (Some(void), Some(end)) = (standing.void.get_mut(place), ends.get(place))
                    {
                        *void = (*void).max(*end);
                    }
                }
                Some(Err(error)) => problem(&error)?,
            }
        }
        standing.since = Instant::now();
        Ok(())
    }
}

/// What a consumer told beside records.
fn problem(error: &KafkaError) -> Result<(), Stop> {
    match code_of(error) {
        Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation) => return Err(Stop::Look),
        // It has no group, and asks for one's coordinator all the same.
        Some(
            Code::GroupAuthorizationFailed
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::NotCoordinator
            | Code::WaitingForCoordinator
            | Code::NoError,
        )
        | None => return Ok(()),
        Some(_) => {}
    }
    let fault = Fault::of(error);
    Err(if fault.kind == ErrorKind::Absent { Stop::Stale(fault) } else { Stop::Failed(fault) })
}
