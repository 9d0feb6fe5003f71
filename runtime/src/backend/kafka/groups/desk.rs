use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::client::{Clients, SLICE};
use super::super::fault::{Fault, code_of};
use super::super::settings::millis;
use super::committer::Committer;
use super::listener::{Listener, News};
use super::{AGAIN, PIECE, Wire, group_id, wire};
use crate::broker::lock;
use crate::capability::{BackendError, GroupAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::Start;

/// A desk is kept for so long after it was used.
const KEPT: Duration = Duration::from_secs(10);
/// So many wait for one desk.
const MOST_JOBS: usize = 64;

/// The desks of one broker, by their groups' names on the wire.
#[derive(Default)]
pub(in super::super) struct Desks {
    open: Mutex<HashMap<String, SyncSender<Job>>>,
}

/// Something to do at a desk.
struct Job {
    until: Instant,
    sent: Arc<Sent>,
    work: Box<Work>,
}

type Work = dyn FnOnce(Result<&Desk, Fault>) + Send;

/// Whether something was sent that changes the group, or won't be any more.
#[derive(Default)]
struct Sent {
    state: AtomicU8,
}

impl Sent {
    const CHANGES: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// Says that it is about to be sent, unless who asked has given up.
    fn changes(&self) -> Result<(), Fault> {
        match self.state.compare_exchange(0, Self::CHANGES, Ordering::AcqRel, Ordering::Acquire) {
            Err(Self::GIVEN_UP) => Err(Fault::timeout(Outcome::NotApplied)),
            _ => Ok(()),
        }
    }

    /// Gives up, and says whether it may have happened.
    fn give_up(&self) -> Outcome {
        match self.state.compare_exchange(0, Self::GIVEN_UP, Ordering::AcqRel, Ordering::Acquire) {
            Err(Self::CHANGES) => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}

/// A consumer of a group that doesn't join it, on the thread that blocks for it.
pub(super) struct Desk {
    pub(super) clients: Arc<Clients>,
    pub(super) group: String,
    topic: String,
    consumer: Arc<BaseConsumer<Listener>>,
    partitions: u32,
    until: Instant,
    sent: Arc<Sent>,
    /// Whether the consumer isn't asked again: something is forbidden, which it doesn't tell twice, or it waits for an
    /// answer still.
    spent: Cell<bool>,
}

/// Does something at a group's desk, within the timeout.
pub(super) async fn at_desk<T: Send + 'static>(
    clients: &Arc<Clients>,
    group: &GroupAddress,
    work: impl FnOnce(&Desk) -> Result<T, Fault> + Send + 'static,
) -> Result<T, BackendError> {
    let (reply, answer) = oneshot::channel();
    let sent = Arc::new(Sent::default());
    let until = Instant::now() + clients.host.limits().timeout;
    let work = Box::new(move |desk: Result<&Desk, Fault>| drop(reply.send(desk.and_then(work))));
    submit(clients, group_id(group), group.stream().text(), Job { until, sent: sent.clone(), work })?;
    let waiting = async {
        let panicked = || Err(Fault::unreachable("a thread of Kafka's client panicked"));
        Ok(answer.await.unwrap_or_else(|_| panicked())?)
    };
    let answered = clients.host.within(Outcome::Unknown, waiting).await;
    answered.map_err(|error| match error.outcome {
        Outcome::Unknown => BackendError { outcome: sent.give_up(), ..error },
        Outcome::NotApplied => error,
    })
}

/// Has it asked at the group's desk whether the group answers. A member's own question waits while others join.
pub(super) fn ask_for_life(
    clients: &Arc<Clients>,
    group: &str,
    topic: &str,
    told: impl FnOnce() + Send + 'static,
) -> Result<oneshot::Receiver<Result<(), Fault>>, Fault> {
    let (reply, answer) = oneshot::channel();
    let work = move |desk: Result<&Desk, Fault>| {
        let _ = reply.send(desk.and_then(Desk::answers));
        told();
    };
    let until = Instant::now() + clients.patience();
    submit(clients, group.to_owned(), topic, Job { until, sent: Arc::default(), work: Box::new(work) })?;
    Ok(answer)
}

/// Brings a job to the group's desk, which is opened where there is none.
fn submit(clients: &Arc<Clients>, id: String, topic: &str, job: Job) -> Result<(), Fault> {
    let mut open = lock(&clients.desks.open);
    let job = match open.get(&id) {
        None => job,
        Some(desk) => match desk.try_send(job) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(_)) => {
                let text = "too many wait for what is asked of one group; ask less at once";
                return Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text));
            }
            // Its thread has panicked.
            Err(TrySendError::Disconnected(job)) => job,
        },
    };
    if clients.stopped() {
        return Err(Fault::closed(Outcome::NotApplied));
    }
    let (desk, jobs) = sync_channel(MOST_JOBS);
    let (own, name, topic) = (clients.clone(), id.clone(), topic.to_owned());
    clients.thread("kafka group", move || serve(&own, &name, &topic, &jobs))?;
    // There is room for it.
    let _ = desk.try_send(job);
    open.insert(id, desk);
    Ok(())
}

/// Does the jobs of one group, until there was none for a while.
fn serve(clients: &Arc<Clients>, group: &str, topic: &str, jobs: &Receiver<Job>) {
    let mut desk: Option<Desk> = None;
    let mut used = Instant::now();
    while !clients.stopped() {
        let job = match jobs.recv_timeout(SLICE) {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(desk) = &desk {
                    // Serves what the consumer says of itself.
                    let _ = desk.consumer.poll(Duration::ZERO);
                }
                if used.elapsed() < KEPT {
                    continue;
                }
                let mut open = lock(&clients.desks.open);
                let Ok(job) = jobs.try_recv() else {
                    open.remove(group);
                    return;
                };
                job
            }
        };
        let Job { until, sent, work } = job;
        let opened = match desk.take() {
            Some(desk) => Ok(Desk { until, sent, ..desk }),
            None => Desk::new(clients, group, topic, until, sent),
        };
        let found = opened.and_then(|mut open| {
            let counted = open.ask(|desk, most| counted(&desk.consumer, &desk.topic, most));
            open.partitions = counted.as_ref().copied().unwrap_or_default();
            let open = desk.insert(open);
            counted.map(|_| &*open)
        });
        work(found);
        desk.take_if(|desk| desk.spent.get());
        used = Instant::now();
    }
}

impl Desk {
    fn new(clients: &Arc<Clients>, group: &str, topic: &str, until: Instant, sent: Arc<Sent>) -> Result<Self, Fault> {
        let limits = clients.host.limits();
        let mut config = clients.settings.consumer(limits, group);
        config
            .set("enable.partition.eof", "true")
            // Where there is no record, the server says so at once.
            .set("fetch.wait.max.ms", "5")
            // It doesn't join, so this is how long a commit waits for the group's coordinator to be found.
            .set("session.timeout.ms", millis(limits.timeout).clamp(1_000, 45_000).to_string())
            .set("heartbeat.interval.ms", "300");
        let consumer = Arc::new(config.create_with_context(Listener::default()).map_err(|error| Fault::of(&error))?);
        let (clients, group, topic) = (clients.clone(), group.to_owned(), topic.to_owned());
        Ok(Self { clients, group, topic, consumer, partitions: 0, until, sent, spent: Cell::new(false) })
    }

    /// Says that something is about to be sent that changes the group, unless who asked has given up.
    pub(super) fn changes(&self) -> Result<(), Fault> {
        self.sent.changes()
    }

    /// Waits a moment before something is tried again, and says whether there is time for that.
    pub(super) fn again(&self) -> bool {
        if self.clients.stopped() || Instant::now() + AGAIN >= self.until {
            return false;
        }
        std::thread::park_timeout(AGAIN);
        true
    }

    /// Asks in pieces, so that a broker that closes isn't kept.
    fn ask<T>(&self, ask: impl Fn(&Self, Duration) -> Result<T, Fault>) -> Result<T, Fault> {
        loop {
            if self.clients.stopped() {
                return Err(Fault::closed(Outcome::NotApplied));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            match ask(self, left.min(PIECE)).map_err(|fault| unheard(&self.clients, &self.topic, fault)) {
                Err(fault) if is_passing(&fault) && !left.is_zero() => {
                    hear(&self.consumer, SLICE.min(left)).inspect_err(|_| self.spent.set(true))?;
                }
                answer => return answer,
            }
        }
    }

    fn list(&self, offset: Offset) -> Result<TopicPartitionList, Fault> {
        list(&self.topic, (0..self.partitions).map(|partition| (partition, offset)))
    }

    /// Whether the group answers at all.
    fn answers(&self) -> Result<(), Fault> {
        self.ask(|desk, most| answers(&desk.consumer, &desk.topic, most))
    }

    /// What is committed in each partition.
    pub(super) fn committed(&self) -> Result<Vec<Option<Wire>>, Fault> {
        let committed = self.ask(|desk, most| committed(&desk.consumer, &desk.topic, 0..desk.partitions, most))?;
        Ok(committed.into_iter().map(|(_, committed)| committed).collect())
    }

    /// In each partition the first offset, or the one after the last that can be read, or the first at a time.
    pub(super) fn offsets(&self, of: Offset) -> Result<Vec<Wire>, Fault> {
        self.ask(|desk, most| {
            let found = desk.consumer.offsets_for_times(desk.list(of)?, most).map_err(|error| Fault::of(&error))?;
            let mut offsets = vec![0; desk.partitions as usize];
            for element in found.elements() {
                element.error().map_err(|error| Fault::of(&error))?;
                if let Some(offset) = usize::try_from(element.partition()).ok().and_then(|at| offsets.get_mut(at)) {
                    *offset = element.offset().to_raw().unwrap_or(-1);
                }
            }
            Ok(offsets)
        })
    }

    /// What a start is in each partition, within what is there.
    pub(super) fn resolve(&self, start: &Start) -> Result<Vec<Wire>, Fault> {
        match start {
            Start::Earliest => self.offsets(Offset::Beginning),
            Start::Latest => self.offsets(Offset::End),
            Start::At(time) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                let millis = i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
                // The end first: what is appended meanwhile comes after it.
                let end = self.offsets(Offset::End)?;
                let at = self.offsets(Offset::Offset(millis))?;
                Ok(at.iter().zip(&end).map(|(at, end)| if *at < 0 { *end } else { *at.min(end) }).collect())
            }
            Start::After(positions) => {
                let low = self.offsets(Offset::Beginning)?;
                let end = self.offsets(Offset::End)?;
                let parts = (0..).zip(low.iter().zip(&end));
                Ok(parts
                    .map(|(index, (low, end))| positions.get(index).map_or(*low, wire).clamp(*low, *end.max(low)))
                    .collect())
            }
        }
    }

    /// Which of these partitions have no record from these offsets on. One of which that isn't known in time isn't among
    /// them.
    pub(super) fn read_out(&self, from: Vec<(u32, Wire)>) -> Result<Vec<u32>, Fault> {
        let mut asked: Vec<u32> = from.iter().map(|(partition, _)| *partition).collect();
        let mut read_out = Vec::new();
        if asked.is_empty() {
            return Ok(read_out);
        }
        let offsets = from.into_iter().map(|(partition, offset)| (partition, Offset::Offset(offset)));
        let list = list(&self.topic, offsets)?;
        self.consumer.assign(&list).map_err(|error| Fault::of(&error))?;
        let until = self.until.min(Instant::now() + PIECE);
        while !asked.is_empty() && Instant::now() < until && !self.clients.stopped() {
            let (partition, end) = match self.consumer.poll(Duration::from_millis(10)) {
                Some(Ok(message)) => (message.partition(), false),
                Some(Err(KafkaError::PartitionEOF(partition))) => (partition, true),
                _ => continue,
            };
            let known = asked.iter().position(|asked| u32::try_from(partition) == Ok(*asked));
            if let Some(known) = known {
                let partition = asked.swap_remove(known);
                if end {
                    read_out.push(partition);
                }
            }
        }
        self.consumer.unassign().map_err(|error| Fault::of(&error))?;
        Ok(read_out)
    }

    /// Commits for a group without members.
    pub(super) fn commit(&self, offsets: &[(u32, Wire)]) -> Result<(), Fault> {
        let list = list(&self.topic, offsets.iter().map(|(partition, offset)| (*partition, Offset::Offset(*offset))))?;
        self.changes()?;
        loop {
            match self.commit_once(list.clone()) {
                Err(fault) if self.clients.recent.is_unheard(&self.topic, &fault) && self.again() => {}
                committed => return committed,
            }
        }
    }

    fn commit_once(&self, list: TopicPartitionList) -> Result<(), Fault> {
        let (tell, told) = sync_channel(1);
        let committer = Committer::start(&self.consumer, move |failed| {
            let _ = tell.send(failed);
        })?;
        committer.send(list)?;
        let fault = loop {
            match told.recv_timeout(SLICE) {
                Ok(failed) => return failed.map_or(Ok(()), |code| Err(Fault::of_code(code, Outcome::Unknown))),
                Err(RecvTimeoutError::Disconnected) => break Committer::ended(),
                Err(RecvTimeoutError::Timeout) if self.clients.stopped() => break Fault::closed(Outcome::Unknown),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= self.until => {
                    break Fault::timeout(Outcome::Unknown);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.spent.set(true);
        Err(fault)
    }
}

/// Whether it is worth to ask again.
pub(super) fn is_passing(fault: &Fault) -> bool {
    matches!(fault.kind, ErrorKind::Timeout | ErrorKind::Unavailable) || super::is_live(fault)
}

/// Serves what came in meanwhile, and waits a moment. Where the user may not what is asked for, the client goes on asking
/// and tells it only here.
pub(super) fn hear(consumer: &BaseConsumer<Listener>, most: Duration) -> Result<(), Fault> {
    let told = consumer.poll(most).and_then(Result::err).and_then(|error| code_of(&error));
    let troubles = consumer.context().take().into_iter().filter_map(|news| match news {
        News::Trouble(code) => Some(code),
        _ => None,
    });
    let mut faults = troubles.chain(told).map(|code| Fault::of_code(code, Outcome::NotApplied));
    faults.find(|fault| fault.kind == ErrorKind::Forbidden).map_or(Ok(()), Err)
}

/// How many partitions a topic has. Where one that was made of late isn't there, it is worth to ask again.
pub(super) fn count(
    clients: &Clients,
    consumer: &BaseConsumer<Listener>,
    topic: &str,
    most: Duration,
) -> Result<u32, Fault> {
    counted(consumer, topic, most).map_err(|fault| unheard(clients, topic, fault))
}

/// Where a stream that was made of late isn't there, it is worth to ask again.
fn unheard(clients: &Clients, topic: &str, fault: Fault) -> Fault {
    if clients.recent.is_unheard(topic, &fault) { Fault::unheard() } else { fault }
}

fn counted(consumer: &BaseConsumer<Listener>, topic: &str, most: Duration) -> Result<u32, Fault> {
    let metadata = consumer.fetch_metadata(Some(topic), most).map_err(|error| Fault::of(&error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or_else(Fault::absent)?;
    if let Some(error) = found.error() {
        return Err(Fault::of_code(error.into(), Outcome::NotApplied));
    }
    match found.partitions().len() {
        0 => Err(Fault::absent()),
        count => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

/// Whether a group answers. Where a unit is committing, what is asked of its partitions is answered once that has ended, so
/// it is asked of one that isn't there.
pub(super) fn answers(consumer: &BaseConsumer<Listener>, topic: &str, most: Duration) -> Result<(), Fault> {
    committed(consumer, topic, [u32::MAX], most).map(drop)
}

/// What is committed in these partitions. Where a unit is under way that commits there, it waits for its end.
pub(super) fn committed(
    consumer: &BaseConsumer<Listener>,
    topic: &str,
    partitions: impl IntoIterator<Item = u32>,
    most: Duration,
) -> Result<Vec<(u32, Option<Wire>)>, Fault> {
    let list = list(topic, partitions.into_iter().map(|partition| (partition, Offset::Invalid)))?;
    let found = consumer.committed_offsets(list, most).map_err(|error: KafkaError| Fault::of(&error))?;
    let elements = found.elements();
    let mut committed = Vec::with_capacity(elements.len());
    for element in &elements {
        element.error().map_err(|error| Fault::of(&error))?;
        if let Ok(partition) = u32::try_from(element.partition()) {
            let offset = element.offset().to_raw().filter(|offset| *offset >= 0);
            committed.push((partition, offset));
        }
    }
    committed.sort_unstable_by_key(|(partition, _)| *partition);
    Ok(committed)
}

/// A list of partitions as the client takes it.
pub(in super::super) fn list(
    topic: &str,
    offsets: impl IntoIterator<Item = (u32, Offset)>,
) -> Result<TopicPartitionList, Fault> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        let partition = i32::try_from(partition).unwrap_or(i32::MAX);
        list.add_partition_offset(topic, partition, offset).map_err(|error| Fault::of(&error))?;
    }
    Ok(list)
}
