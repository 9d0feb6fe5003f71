//! Units: transactions of Kafka.
//!
//! A transactional producer does one at a time, so there are a few, each with an identity and a thread of its own, made
//! when they are needed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaError};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::client::{Clients, SLICE};
use super::fault::{Fault, code_of};
use super::groups::{Ticket, list, revoked};
use super::log::{StreamState, message, state};
use super::{Kafka, KafkaClient};
use crate::broker::lock;
use crate::capability::{BackendError, Record, Settlement, Transactions, Unit};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Positions, Receipt};

/// Units at once; others wait.
const MOST: usize = 4;
/// How long a transaction that failed may take to be undone, where the unit's own time is up.
const UNDO: Duration = Duration::from_secs(1);
/// So much later it is given up as one of which nothing is heard.
const SILENCE: Duration = Duration::from_millis(500);
/// So long a call that undoes one takes at once.
const PIECE: Duration = Duration::from_millis(100);
/// Before a unit that was refused for the moment is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// The transactional producers of one broker.
pub(super) struct Units {
    places: Arc<Semaphore>,
    /// Those that have nothing to do.
    idle: Mutex<Vec<SyncSender<Job>>>,
    made: AtomicU64,
    /// What their identities begin with.
    prefix: OnceLock<String>,
}

impl Default for Units {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MOST)),
            idle: Mutex::default(),
            made: AtomicU64::new(0),
            prefix: OnceLock::new(),
        }
    }
}

/// One attempt to record a unit.
struct Job {
    records: Arc<Vec<Placed>>,
    tickets: Vec<(Arc<StreamState>, Ticket)>,
    until: Instant,
    reply: oneshot::Sender<Result<Vec<Receipt>, Fault>>,
    /// Kept while the producer is at it, whoever has given up meanwhile.
    place: Place,
}

/// One of those that may be under way at once.
type Place = Arc<OwnedSemaphorePermit>;

/// A record and where it goes.
struct Placed {
    state: Arc<StreamState>,
    partition: i32,
    record: Record,
}

/// What a member commits in a unit.
struct Commit {
    state: Arc<StreamState>,
    positions: Positions,
}

impl Transactions for Kafka {
    async fn record(client: &KafkaClient, unit: Unit) -> Result<Vec<Receipt>, BackendError> {
        if unit.settlements.iter().any(|settlement| matches!(settlement, Settlement::Ack { .. })) {
            let text = "Kafka has no ack groups; settle by the position of a commit group's member";
            return Err(Fault::unsupported(text).into());
        }
        let clients = client.clients();
        let until = Instant::now() + clients.host.limits().timeout;
        // Whatever isn't told by the thread was cut short in the middle.
        let recorded = async {
            let place = clients.units.places.clone().acquire_owned().await;
            let place = Arc::new(place.map_err(|_| Fault::closed(Outcome::NotApplied))?);
            let (records, commits) = resolve(clients, unit).await?;
            clients.record(records, commits, until, &place).await
        };
        clients
            .host
            .within_time(until.saturating_duration_since(Instant::now()) + UNDO + SILENCE, Outcome::Unknown, recorded)
            .await
    }
}

/// Finds out where everything goes. The commits are in the order of their members.
async fn resolve(clients: &Arc<Clients>, unit: Unit) -> Result<(Vec<Placed>, BTreeMap<u64, Commit>), BackendError> {
    let mut records = Vec::with_capacity(unit.appends.len());
    for (stream, record) in unit.appends {
        let state = state(&stream).clone();
        let layout = state.layout(clients).await?;
        let partition = state.partition(layout.partitions, record.key.as_ref());
        let _ = clients.units.prefix.get_or_init(|| prefix(clients, stream.origin().source.as_deref()));
        records.push(Placed { state, partition, record });
    }
    let mut commits: BTreeMap<u64, Commit> = BTreeMap::new();
    for settlement in unit.settlements {
        let Settlement::Commit { group, member, positions } = settlement else { continue };
        let state = state(group.stream()).clone();
        let _ = clients.units.prefix.get_or_init(|| prefix(clients, group.stream().origin().source.as_deref()));
        let commit = commits.entry(member).or_insert_with(|| Commit { state, positions: Positions::new() });
        commit.positions.extend(positions.iter());
    }
    Ok((records, commits))
}

/// What the identities begin with: the setting, or one that no other process has.
fn prefix(clients: &Clients, source: Option<&str>) -> String {
    let own = || {
        let namespace = source.unwrap_or_default().trim_start_matches('/').replace('/', ".");
        format!("{namespace}.{:016x}", clients.host.random())
    };
    clients.settings.transactional_id.clone().unwrap_or_else(own)
}

impl Clients {
    /// Records a unit; again where the group was changing, so that nothing was recorded.
    async fn record(
        self: &Arc<Self>,
        records: Vec<Placed>,
        commits: BTreeMap<u64, Commit>,
        until: Instant,
        place: &Place,
    ) -> Result<Vec<Receipt>, BackendError> {
        let records = Arc::new(records);
        loop {
            let mut tickets = Vec::with_capacity(commits.len());
            for (member, commit) in &commits {
                let gone = || revoked(&commit.positions.iter().map(Position::partition).collect::<Vec<_>>());
                let member = self.members.get(*member).ok_or_else(gone)?;
                let ticket = tokio::time::timeout_at(until, member.ticket(commit.positions.clone())).await;
                let ticket = ticket.map_err(|_| Fault::timeout(Outcome::NotApplied))??;
                tickets.push((commit.state.clone(), ticket));
            }
            let nothing = tickets.iter().all(|(_, ticket)| ticket.offsets.is_empty());
            if records.is_empty() && nothing {
                return Ok(Vec::new());
            }
            let fault = match self.attempt(records.clone(), tickets, until, place.clone()).await {
                Ok(receipts) => return Ok(receipts),
                Err(fault) => fault,
            };
            if !is_of_the_moment(&fault) {
                return Err(fault.into());
            }
            // The server knows the member as another than it is: it may have lost partitions.
            for (member, commit) in &commits {
                let others = match self.members.get(*member) {
                    Some(member) => member.others(&commit.positions),
                    None => commit.positions.iter().map(Position::partition).collect(),
                };
                if !others.is_empty() {
                    return Err(revoked(&others));
                }
            }
            if Instant::now() + AGAIN >= until {
                return Err(fault.into());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Has a producer record a unit.
    async fn attempt(
        self: &Arc<Self>,
        records: Arc<Vec<Placed>>,
        tickets: Vec<(Arc<StreamState>, Ticket)>,
        until: Instant,
        place: Place,
    ) -> Result<Vec<Receipt>, Fault> {
        let idle = lock(&self.units.idle).pop();
        let worker = match idle {
            Some(worker) => worker,
            None => self.make()?,
        };
        let (reply, answer) = oneshot::channel();
        let job = Job { records, tickets, until, reply, place };
        // One that is idle takes it at once.
        worker.send(job).map_err(|_| Fault::closed(Outcome::NotApplied))?;
        // Dropped meanwhile, the producer goes on.
        answer.await.unwrap_or_else(|_| Err(Fault::unreachable("the producer's thread ended")))
    }

    fn make(self: &Arc<Self>) -> Result<SyncSender<Job>, Fault> {
        let number = self.units.made.fetch_add(1, Ordering::Relaxed);
        let prefix = self.units.prefix.get().map_or("tidings", String::as_str);
        let (sender, jobs) = sync_channel(1);
        let id = format!("{prefix}.{number}");
        let worker = Worker { clients: self.clone(), id, producer: None, mailbox: sender.clone() };
        self.thread("kafka transactions", move || worker.run(&jobs))?;
        Ok(sender)
    }
}

/// Whether the group's coordinator took the member for another than it is, so that nothing was recorded.
fn is_of_the_moment(fault: &Fault) -> bool {
    let codes = [
        Code::IllegalGeneration,
        Code::UnknownMemberId,
        Code::FencedInstanceId,
        Code::StaleMemberEpoch,
        Code::RebalanceInProgress,
    ];
    fault.code.is_some_and(|code| codes.contains(&code))
}

/// A thread with a transactional producer.
struct Worker {
    clients: Arc<Clients>,
    id: String,
    /// Made by the first unit, and anew after it was fenced or lost.
    producer: Option<BaseProducer<Deliveries>>,
    /// Where its jobs come in.
    mailbox: SyncSender<Job>,
}

/// What became of the records of a transaction, by their place in it.
#[derive(Clone, Default)]
struct Deliveries {
    all: Arc<Mutex<Vec<Delivery>>>,
}

/// Where a record stands, once that is known.
type Delivery = Option<Result<(i32, i64), Code>>;

impl ClientContext for Deliveries {
    // Its texts may hold names of the caller's.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn stats(&self, _: Statistics) {}

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, place: usize) {
        let delivered = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(code_of(error).unwrap_or(Code::Fail)),
        };
        if let Some(entry) = lock(&self.all).get_mut(place) {
            *entry = Some(delivered);
        }
    }
}

impl Worker {
    fn run(mut self, jobs: &Receiver<Job>) {
        while !self.clients.stopped() {
            match jobs.recv_timeout(SLICE) {
                Ok(job) => {
                    let Job { records, tickets, until, reply, place } = job;
                    let recorded = self.record(&records, tickets, until);
                    lock(&self.clients.units.idle).push(self.mailbox.clone());
                    drop(place);
                    // Who asked may have given up.
                    let _ = reply.send(recorded);
                }
                Err(_) => {
                    if let Some(producer) = &self.producer {
                        // Serves what it says of itself.
                        producer.poll(Duration::ZERO);
                    }
                }
            }
        }
    }

    fn record(
        &mut self,
        records: &[Placed],
        mut tickets: Vec<(Arc<StreamState>, Ticket)>,
        until: Instant,
    ) -> Result<Vec<Receipt>, Fault> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.make(until)?,
        };
        producer.begin_transaction().map_err(|error| failed(&error))?;
        let prepared = self.prepare(&producer, records, &tickets, until);
        let fault = match prepared {
            Ok(receipts) => {
                for (_, ticket) in &mut tickets {
                    ticket.sends();
                }
                match self.commit(&producer, until) {
                    Ok(()) => {
                        settle(tickets, true);
                        self.producer = Some(producer);
                        return Ok(receipts);
                    }
                    // It isn't known what became of it, so that the producer isn't used again.
                    Err(fault) if fault.outcome == Outcome::Unknown => {
                        self.let_go(producer);
                        return Err(fault);
                    }
                    Err(fault) => fault,
                }
            }
            Err(fault) => fault,
        };
        // A producer that was fenced, fails to undo it or lost a record isn't used again: the next unit may be refused for it.
        // What it left the server undoes.
        let fatal = producer.client().fatal_error().map(|(code, _)| code);
        // What was under way then ended without saying so.
        let fault = fatal.map_or(fault, |code| Fault::of_code(code, Outcome::NotApplied));
        let undone = fatal.is_none() && self.undo(&producer, until.max(Instant::now() + UNDO));
        if undone && is_of_the_moment(&fault) {
            self.producer = Some(producer);
        } else {
            self.let_go(producer);
        }
        settle(tickets, false);
        Err(fault.with_outcome(Outcome::NotApplied))
    }

    /// Lets a producer go, which may take half a second, for which nobody is to wait.
    fn let_go(&self, producer: BaseProducer<Deliveries>) {
        // Where there is no thread left, it goes here.
        let _ = self.clients.thread("kafka producer's end", move || drop(producer));
    }

    /// Makes the producer, which fences another of its identity and ends what that had begun.
    fn make(&self, until: Instant) -> Result<BaseProducer<Deliveries>, Fault> {
        let config = self.clients.settings.transactional(self.clients.host.limits(), &self.id);
        let producer: BaseProducer<Deliveries> =
            config.create_with_context(Deliveries::default()).map_err(|error| Fault::of(&error))?;
        loop {
            if self.clients.stopped() {
                return Err(Fault::closed(Outcome::NotApplied));
            }
            let most = left(until);
            match producer.init_transactions(most.min(Duration::from_secs(1))) {
                Ok(()) => return Ok(producer),
                Err(KafkaError::Transaction(error)) if error.is_retriable() && !most.is_zero() => {}
                Err(error) => return Err(failed(&error).with_outcome(Outcome::NotApplied)),
            }
        }
    }

    /// Sends everything of a unit but that it is committed.
    fn prepare(
        &self,
        producer: &BaseProducer<Deliveries>,
        records: &[Placed],
        tickets: &[(Arc<StreamState>, Ticket)],
        until: Instant,
    ) -> Result<Vec<Receipt>, Fault> {
        let deliveries = producer.context().clone();
        *lock(&deliveries.all) = vec![None; records.len()];
        for (place, placed) in records.iter().enumerate() {
            let mut sending: BaseRecord<'_, [u8], [u8], usize> =
                message(&placed.state, placed.partition, &placed.record, place);
            loop {
                match producer.send(sending) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(Code::QueueFull), back)) if !left(until).is_zero() => {
                        sending = back;
                        producer.poll(left(until).min(SLICE));
                    }
                    Err((error, _)) => return Err(cause(producer, failed(&error))),
                }
            }
            producer.poll(Duration::ZERO);
        }
        for (state, ticket) in tickets {
            if ticket.offsets.is_empty() {
                continue;
            }
            let offsets = ticket.offsets.iter().map(|(partition, to)| (*partition, Offset::Offset(*to)));
            let list = list(&state.topic, offsets)?;
            self.again(until, |most| producer.send_offsets_to_transaction(&list, &ticket.metadata, most))
                .map_err(|fault| cause(producer, fault))?;
        }
        self.deliver(producer, until)?;
        let delivered = std::mem::take(&mut *lock(&deliveries.all));
        let mut receipts = Vec::with_capacity(records.len());
        for delivered in delivered {
            let (partition, offset) = match delivered {
                Some(Ok(placed)) => placed,
                Some(Err(Code::PurgeQueue | Code::PurgeInflight)) if !self.clients.stopped() => {
                    return Err(Fault::unreachable("the server gave the transaction up"));
                }
                Some(Err(code)) => return Err(Fault::of_code(code, Outcome::NotApplied)),
                None => return Err(Fault::timeout(Outcome::NotApplied)),
            };
            let position = u32::try_from(partition).ok().zip(u128::try_from(offset).ok());
            receipts.push(Receipt::new(position.map(|(partition, offset)| Position::new(partition, offset)), false));
        }
        Ok(receipts)
    }

    /// Waits until it is known of every record what became of it. The crate's own `flush` does so ten times a second.
    fn deliver(&self, producer: &BaseProducer<Deliveries>, until: Instant) -> Result<(), Fault> {
        while producer.in_flight_count() > 0 {
            if self.clients.stopped() {
                return Err(Fault::closed(Outcome::NotApplied));
            }
            if left(until).is_zero() {
                return Err(Fault::timeout(Outcome::NotApplied));
            }
            producer.poll(Duration::from_millis(1));
        }
        Ok(())
    }

    fn commit(&self, producer: &BaseProducer<Deliveries>, until: Instant) -> Result<(), Fault> {
        self.again(until, |most| producer.commit_transaction(most))
    }

    /// Undoes a transaction, and says whether that was done. Meanwhile what becomes of its records is to be heard: the
    /// client waits for that, and tells it only when it is asked.
    ///
    /// A close waits for it a moment, too: a producer that goes in the middle of it may take the process along.
    fn undo(&self, producer: &BaseProducer<Deliveries>, until: Instant) -> bool {
        let closing = Instant::now() + UNDO;
        loop {
            let heard = Instant::now() + PIECE;
            while producer.in_flight_count() > 0 && !left(heard).is_zero() {
                producer.poll(Duration::from_millis(1));
            }
            match producer.abort_transaction(PIECE) {
                Ok(()) => return true,
                Err(KafkaError::Transaction(error)) if error.is_retriable() => {
                    let until = if self.clients.stopped() { closing.min(until) } else { until };
                    if left(until).is_zero() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }

    /// Makes a call, and resumes it where its answer only takes longer.
    fn again(&self, until: Instant, call: impl Fn(Duration) -> Result<(), KafkaError>) -> Result<(), Fault> {
        loop {
            let most = left(until);
            match call(most.min(Duration::from_secs(1))) {
                Ok(()) => return Ok(()),
                Err(KafkaError::Transaction(error)) if error.is_retriable() && !most.is_zero() => {
                    if self.clients.stopped() {
                        return Err(Fault::closed(Outcome::Unknown));
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

/// Why a transaction can't go on: what became of its records says more than the next call does.
fn cause(producer: &BaseProducer<Deliveries>, fault: Fault) -> Fault {
    producer.poll(Duration::from_millis(10));
    let failed = lock(&producer.context().all).iter().flatten().find_map(|delivered| delivered.err());
    match failed {
        Some(code) if !matches!(code, Code::PurgeQueue | Code::PurgeInflight) => {
            Fault::of_code(code, Outcome::NotApplied)
        }
        _ => fault,
    }
}

fn settle(tickets: Vec<(Arc<StreamState>, Ticket)>, committed: bool) {
    for (_, ticket) in tickets {
        ticket.settle(committed);
    }
}

fn failed(error: &KafkaError) -> Fault {
    match error {
        KafkaError::Transaction(error) => of_transaction(error),
        error => Fault::of_sent(error),
    }
}

fn of_transaction(error: &RDKafkaError) -> Fault {
    let fault = Fault::of_code(error.code(), Outcome::Unknown);
    // A transaction that has to be undone has recorded nothing.
    let undone = error.txn_requires_abort() || fault.kind == ErrorKind::Fenced;
    if undone { fault.with_outcome(Outcome::NotApplied) } else { fault }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
