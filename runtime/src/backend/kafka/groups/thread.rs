//! The thread that polls a member's consumer.
//!
//! librdkafka tells changes of the assignment as events, and waits until it is told that they are agreed to, while the
//! member's heartbeats go on. So nothing blocks in a callback: what is told is kept, and agreed to when the partitions are
//! handed over or their time is up. Meanwhile commits are sent and answered as always, but librdkafka fetches nothing.
//!
//! Each partition's records have a queue of their own in librdkafka, which is bounded and emptied only as far as there is
//! room. To read a partition from elsewhere it is taken from the consumer and given to it anew with another offset: seeking
//! fails where an offset was out of range, or right after an assignment.

mod confirm;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::client::Clients;
use super::super::fault::{Fault, code_of};
use super::super::log::{Copies, StreamState, read_record};
use super::super::settings::{GroupProtocol, millis};
use super::committer::Committer;
use super::desk::{self, is_passing};
use super::held::{Ahead, Asked, Held};
use super::listener::{Listener, News};
use super::member::{Shared, Ticket};
use super::{AGAIN, PIECE, Wire};
use crate::broker::lock;
use crate::capability::BackendError;
use crate::capability::Stored;
use crate::error::{ErrorKind, Outcome};
use crate::stream::Position;

/// The thread wakes at least so often, to see whether the broker closes.
const IDLE: Duration = Duration::from_millis(100);
/// So many records are taken from a partition's queue before the next one's turn.
const TURN: usize = 256;
/// What librdkafka reads ahead of each partition, in KiB.
const QUEUED_KIB: &str = "4096";
/// How soon a member hears of a change of its group, where it isn't the server that says so.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How often it is looked whether the stream is there after partitions were taken, and how long between.
const LOOKS: u32 = 8;
const LOOK: Duration = Duration::from_millis(500);
/// So long a member that leaves waits at most until it has arrived, where the broker closes, and for a commit's answer.
const ARRIVAL: Duration = Duration::from_secs(2);
/// How often a member that leaves looks whether it has.
const CLOSING: Duration = Duration::from_millis(2);
/// A member that hands over in good time isn't given up for it.
const GRACE: Duration = Duration::from_mins(1);

/// What makes a member.
pub(super) struct Poller {
    pub(super) clients: Arc<Clients>,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Arc<StreamState>,
    pub(super) group: String,
    pub(super) instance: Option<String>,
    pub(super) hand_over: Duration,
}

/// A member's consumer and what is under way with it.
struct Polling {
    poller: Poller,
    consumer: Arc<BaseConsumer<Listener>>,
    listener: Listener,
    /// Whether a queue got something, since they were looked at.
    filled: Arc<AtomicBool>,
    readers: BTreeMap<u32, Reader>,
    copies: Copies,
    /// Changes that aren't agreed to.
    changes: VecDeque<Change>,
    /// Commits that are sent.
    sent: Option<Vec<Asked>>,
    /// Takes what is to be committed to the thread that waits for the answer. It is made by the first.
    committer: Option<Committer>,
    /// Before this, what failed isn't tried again.
    not_before: Option<Instant>,
    /// When it is looked whether the stream is still there, and how often yet. Where the server decides who has which
    /// partition, a member only learns that it has none.
    look: (Instant, u32),
    /// Whether it is looked for though the member has partitions.
    doubts: bool,
    /// Where somebody waits for the group's answer.
    waits: Option<confirm::Waits>,
}

enum Change {
    Assign(Vec<u32>),
    Revoke(Vec<u32>),
}

/// Where a partition is read.
struct Reader {
    queue: Option<PartitionQueue<Listener>>,
    /// The next offset that is taken from the queue.
    next: Option<Wire>,
    /// Whether it has to be given to the consumer anew.
    restart: bool,
    /// Whether its offset isn't there.
    astray: bool,
}

impl Poller {
    /// Joins, polls until the member leaves, and lets the consumer go.
    pub(super) fn run(self, tell: oneshot::Sender<Result<(), Fault>>) {
        let _ = self.shared.thread.set(std::thread::current());
        let _end = End(self.shared.clone());
        match self.start() {
            Err(fault) => drop(tell.send(Err(fault))),
            Ok(mut polling) => {
                // Where nobody waits any longer, nobody joins.
                if tell.send(Ok(())).is_ok() {
                    polling.join();
                    polling.run();
                }
                polling.leave();
            }
        }
    }

    /// Makes the consumer and looks whether there is a group to join.
    fn start(self) -> Result<Polling, Fault> {
        let filled = Arc::new(AtomicBool::new(true));
        let listener = Listener::default();
        let mut consumer: BaseConsumer<Listener> =
            self.config().create_with_context(listener.clone()).map_err(|error| Fault::of(&error))?;
        consumer.set_nonempty_callback(waker(&filled));
        let until = Instant::now() + self.clients.host.limits().timeout;
        loop {
            match self.is_recorded(&consumer) {
                Err(fault) if is_passing(&fault) && Instant::now() < until && !self.is_over() => {
                    desk::hear(&consumer, AGAIN)?;
                }
                Err(fault) => return Err(fault),
                Ok(()) => break,
            }
        }
        Ok(Polling {
            poller: self,
            consumer: Arc::new(consumer),
            listener,
            filled,
            readers: BTreeMap::new(),
            changes: VecDeque::new(),
            sent: None,
            copies: Copies::default(),
            committer: None,
            not_before: None,
            look: (Instant::now(), 0),
            doubts: false,
            waits: None,
        })
    }

    fn config(&self) -> rdkafka::ClientConfig {
        let settings = &self.clients.settings;
        let limits = self.clients.host.limits();
        let mut config = settings.consumer(limits, &self.group);
        let (session, patience) = (settings.session_timeout, self.hand_over + GRACE);
        config
            .set("enable.partition.eof", "false")
            // The thread polls for ever, so this is no more than what a rebalance has to wait for a hand-over.
            .set("max.poll.interval.ms", millis(patience.max(session)).to_string())
            .set("topic.metadata.refresh.interval.ms", "10000")
            // How long a topic that isn't there is hoped for: without one nobody joins.
            .set("topic.metadata.propagation.max.ms", "1000")
            .set("queued.min.messages", "10000")
            .set("queued.max.messages.kbytes", QUEUED_KIB)
            // While partitions without records are waited for, those whose queues were full get nothing.
            .set("fetch.wait.max.ms", "100")
            // How long a full queue isn't filled. A second is the default, in which a fast reader starves.
            .set("fetch.queue.backoff.ms", "5");
        if settings.group_protocol == Some(GroupProtocol::Consumer) {
            config.set("group.protocol", "consumer");
        } else {
            let heartbeat = (session / 3).min(HEARTBEAT);
            config
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", millis(session).to_string())
                .set("heartbeat.interval.ms", millis(heartbeat).to_string());
        }
        if let Some(instance) = &self.instance {
            config.set("group.instance.id", instance);
        }
        config
    }

    fn is_recorded(&self, consumer: &BaseConsumer<Listener>) -> Result<(), Fault> {
        let count = desk::count(&self.clients, consumer, &self.state.topic, PIECE)?;
        let committed = desk::committed(consumer, &self.state.topic, 0..count, PIECE)?;
        if committed.iter().all(|(_, committed)| committed.is_none()) { Err(super::absent()) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.clients.stopped() || lock(&self.shared.held).leaving
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        lock(&self.shared.held)
    }
}

impl Polling {
    fn join(&mut self) {
        self.listener.joins();
        if let Err(error) = self.consumer.subscribe(&[&self.poller.state.topic]) {
            let fault = Fault::of(&error);
            self.end(fault.kind, &fault.text);
        }
    }

    fn run(&mut self) {
        while !self.poller.is_over() && self.poller.held().is_member().is_ok() {
            self.filled.store(false, Ordering::Release);
            self.poller.shared.urgent.store(false, Ordering::Release);
            self.listen();
            self.come_due();
            self.agree();
            self.look();
            if self.is_ready() {
                self.resolve();
                self.rewind();
                self.find();
                self.restart();
                self.commit();
                self.units();
            }
            self.confirm();
            if !self.fill() {
                self.sleep();
            }
        }
    }

    /// Sleeps until something happens.
    fn sleep(&self) {
        let held = self.poller.held();
        let now = Instant::now();
        let due = [held.due(), self.not_before].into_iter().flatten().min();
        drop(held);
        let most = due.map_or(IDLE, |due| due.saturating_duration_since(now).min(IDLE));
        if !most.is_zero() && !self.filled.load(Ordering::Acquire) {
            std::thread::park_timeout(most);
        }
    }

    /// Whether what failed may be tried again.
    fn is_ready(&mut self) -> bool {
        if self.not_before.is_some_and(|not_before| not_before > Instant::now()) {
            return false;
        }
        self.not_before = None;
        true
    }

    fn later(&mut self) {
        self.not_before = Some(Instant::now() + AGAIN);
    }

    fn end(&mut self, kind: ErrorKind, text: &str) {
        self.poller.held().end(kind, text);
        self.readers.clear();
        self.poller.shared.changed.notify_one();
    }

    /// Serves the consumer's events until there is none.
    fn listen(&mut self) {
        loop {
            let before = self.listener.count();
            match self.consumer.poll(Duration::ZERO) {
                // Each partition has a queue of its own, so this one isn't the member's.
                Some(Ok(message)) => drop(message),
                Some(Err(error)) => {
                    let error = error.clone();
                    self.failed(&error);
                }
                None if self.listener.count() == before => break,
                None => {}
            }
        }
        for news in self.listener.take() {
            match news {
                News::Assign(partitions) => self.changes.push_back(Change::Assign(unsigned(&partitions))),
                News::Revoke { partitions, lost } => {
                    let partitions = unsigned(&partitions);
                    let mut held = self.poller.held();
                    if lost {
                        held.lose(&partitions);
                    } else {
                        held.move_away(&partitions, self.poller.hand_over);
                    }
                    drop(held);
                    self.poller.shared.changed.notify_one();
                    self.changes.push_back(Change::Revoke(partitions));
                    self.look = (Instant::now(), LOOKS);
                }
                News::Committed(answer) => self.committed(answer),
                News::Trouble(code) => self.trouble(code),
            }
        }
    }

    /// What the consumer says of itself.
    fn failed(&mut self, error: &KafkaError) {
        let fatal = self.consumer.client().fatal_error().map(|(code, _)| code);
        if let Some(code) = fatal {
            return match code {
                Code::FencedInstanceId | Code::UnreleasedInstanceId => {
                    self.end(ErrorKind::Revoked, "another member has this name; give each its own");
                }
                code => {
                    let fault = Fault::of_code(code, Outcome::NotApplied);
                    self.end(fault.kind, &fault.text);
                }
            };
        }
        match code_of(error) {
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => self.is_there(),
            Some(code) => self.trouble(code),
            None => {}
        }
    }

    /// Looks whether the stream is there, for a while after partitions were taken.
    fn look(&mut self) {
        let (at, left) = self.look;
        let now = Instant::now();
        if left > 0 && at <= now && (self.doubts || self.poller.held().assigned().is_empty()) {
            self.look = (now + LOOK, left - 1);
            self.is_there();
        }
    }

    /// Ends the member where its stream isn't there any more.
    fn is_there(&mut self) {
        match desk::count(&self.poller.clients, &self.consumer, &self.poller.state.topic, PIECE) {
            Err(fault) if fault.kind == ErrorKind::Absent => self.end(fault.kind, &fault.text),
            // A server may not have heard of it yet.
            Err(_) if self.poller.clients.recent.is_made(&self.poller.state.topic) => {
                self.look = (Instant::now() + LOOK, LOOKS);
                self.doubts = true;
            }
            _ => self.doubts = false,
        }
    }

    /// Tells the member's callers what they may have to act on.
    fn trouble(&mut self, code: Code) {
        let told = matches!(
            code,
            Code::AllBrokersDown
                | Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::UnsupportedSASLMechanism
                | Code::GroupAuthorizationFailed
                | Code::TopicAuthorizationFailed
        );
        if told {
            self.poller.held().trouble(Fault::of_code(code, Outcome::NotApplied).into());
            self.poller.shared.changed.notify_one();
        }
    }

    fn come_due(&mut self) {
        let now = Instant::now();
        let mut held = self.poller.held();
        if held.due().is_some_and(|due| due <= now) {
            held.come_due(now);
            drop(held);
            self.poller.shared.changed.notify_one();
        }
    }

    /// Agrees to changes: to what is to go when it is handed over, to what comes when it is known where it begins.
    fn agree(&mut self) {
        while let Some(change) = self.changes.front() {
            match change {
                Change::Revoke(partitions) => {
                    let held = self.poller.held();
                    if partitions.iter().any(|partition| held.has(*partition)) {
                        return;
                    }
                    drop(held);
                    let partitions = partitions.clone();
                    self.readers.retain(|partition, _| !partitions.contains(partition));
                    let offsets = partitions.iter().map(|partition| (*partition, Offset::Invalid));
                    if let Ok(list) = desk::list(&self.poller.state.topic, offsets) {
                        // Where it fails, the consumer has lost them all.
                        let _ = self.consumer.incremental_unassign(&list);
                    }
                }
                Change::Assign(partitions) => {
                    let partitions = partitions.clone();
                    if !self.is_ready() {
                        return;
                    }
                    match self.begin(&partitions) {
                        Ok(()) => {}
                        Err(fault) if fault.kind == ErrorKind::Absent => return self.end(fault.kind, &fault.text),
                        Err(_) => return self.later(),
                    }
                }
            }
            self.changes.pop_front();
        }
    }

    /// Takes partitions in, after what is committed.
    fn begin(&mut self, partitions: &[u32]) -> Result<(), Fault> {
        let topic = self.poller.state.topic.clone();
        let mut begin = Vec::new();
        if !partitions.is_empty() {
            begin = desk::committed(&self.consumer, &topic, partitions.iter().copied(), PIECE)?;
            if begin.iter().all(|(_, committed)| committed.is_none()) {
                let count = desk::count(&self.poller.clients, &self.consumer, &topic, PIECE)?;
                let all = desk::committed(&self.consumer, &topic, 0..count, PIECE)?;
                if all.iter().all(|(_, committed)| committed.is_none()) {
                    let text = "what was committed for the group is gone: it was removed, or it expired while the group had \
                                no members (`offsets.retention.minutes`); `ensure` records where it begins anew";
                    return Err(Fault::new(ErrorKind::Absent, Outcome::NotApplied, text));
                }
            }
        }
        self.poller.held().assign(&begin);
        self.poller.shared.changed.notify_one();
        for (partition, next) in &begin {
            self.readers.insert(*partition, Reader { queue: None, next: *next, restart: false, astray: false });
        }
        self.give(&begin)
    }

    /// Gives partitions to the consumer, each with the offset where it begins.
    fn give(&mut self, begin: &[(u32, Option<Wire>)]) -> Result<(), Fault> {
        let topic = &self.poller.state.topic;
        for (partition, _) in begin {
            let queue = self.consumer.split_partition_queue(topic, i32::try_from(*partition).unwrap_or(i32::MAX));
            let queue = queue.map(|mut queue| {
                queue.set_nonempty_callback(waker(&self.filled));
                queue
            });
            if let Some(reader) = self.readers.get_mut(partition) {
                reader.queue = queue;
            }
        }
        let offset = |next: Option<Wire>| next.map_or(Offset::Beginning, Offset::Offset);
        let list = desk::list(topic, begin.iter().map(|(partition, next)| (*partition, offset(*next))))?;
        // Where it fails, the consumer has lost them all and says so.
        let _ = self.consumer.incremental_assign(&list);
        Ok(())
    }

    /// Finds out what is committed where an answer was lost.
    fn resolve(&mut self) {
        let mut held = self.poller.held();
        let doubtful = held.doubtful();
        if doubtful.is_empty() || !(held.has_commits() || held.has_rewinds() || held.has_units()) {
            return;
        }
        drop(held);
        match desk::committed(&self.consumer, &self.poller.state.topic, doubtful, PIECE) {
            Ok(found) => {
                let mut held = self.poller.held();
                for (partition, committed) in found {
                    held.found(partition, committed);
                }
            }
            Err(_) => self.later(),
        }
    }

    fn rewind(&mut self) {
        let mut held = self.poller.held();
        // Whether it goes back to before what is being committed is known once that has ended.
        if self.sent.is_some() || held.unit_open || !held.has_rewinds() || !held.doubtful().is_empty() {
            return;
        }
        let (replies, begin) = (held.rewinds(), held.rewind());
        drop(held);
        for (partition, committed) in begin {
            if let Some(reader) = self.readers.get_mut(&partition)
                && (reader.next != committed || reader.astray)
            {
                reader.next = committed;
                reader.restart = true;
                reader.astray = false;
                // Nothing more of what it holds is taken.
                reader.queue = None;
            }
        }
        for reply in replies {
            let _ = reply.send(Ok(()));
        }
    }

    /// Finds the way of partitions whose offset isn't there.
    fn find(&mut self) {
        let astray = self
            .readers
            .iter()
            .filter(|(_, reader)| reader.astray)
            .map(|(partition, reader)| (*partition, reader.next));
        let astray: Vec<_> = astray.collect();
        for (partition, next) in astray {
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            let Ok((low, end)) = self.consumer.fetch_watermarks(&self.poller.state.topic, number, PIECE) else {
                return self.later();
            };
            let first = match next {
                Some(next) if next < low => Some(low),
                Some(next) if next > end => Some(end),
                _ => None,
            };
            let Some(reader) = self.readers.get_mut(&partition) else { continue };
            reader.astray = false;
            reader.restart = true;
            if let (Some(first), Some(next)) = (first, next) {
                reader.next = Some(first);
                self.poller.held().trimmed(partition, next, first);
                self.poller.shared.changed.notify_one();
            }
        }
    }

    /// Reads partitions from elsewhere.
    fn restart(&mut self) {
        // A call now would be taken for the agreement to what is to go.
        if !self.changes.is_empty() {
            return;
        }
        let restarting = self.readers.iter_mut().filter(|(_, reader)| reader.restart);
        let begin: Vec<_> = restarting
            .map(|(partition, reader)| {
                reader.restart = false;
                reader.queue = None;
                (*partition, reader.next)
            })
            .collect();
        if begin.is_empty() {
            return;
        }
        let offsets = begin.iter().map(|(partition, _)| (*partition, Offset::Invalid));
        if let Ok(list) = desk::list(&self.poller.state.topic, offsets) {
            let _ = self.consumer.incremental_unassign(&list);
        }
        let _ = self.give(&begin);
    }

    /// Sends what is to be committed.
    fn commit(&mut self) {
        if self.sent.is_some() {
            return;
        }
        let mut held = self.poller.held();
        if held.unit_open || !held.has_commits() {
            return;
        }
        let doubtful = held.doubtful();
        let mut highest: BTreeMap<u32, Wire> = BTreeMap::new();
        let (mut asked, mut again) = (Vec::new(), Vec::new());
        for mut one in held.commits() {
            if one.offsets.iter().any(|(partition, _)| doubtful.contains(partition)) {
                again.push(one);
                continue;
            }
            held.sort_out(&mut one);
            if one.offsets.is_empty() {
                let _ = one.reply.send(Ok(one.others));
                continue;
            }
            for (partition, to) in &one.offsets {
                let highest = highest.entry(*partition).or_insert(*to);
                *highest = (*highest).max(*to);
            }
            asked.push(one);
        }
        held.commit_again(again);
        drop(held);
        if asked.is_empty() {
            return;
        }
        let offsets = highest.into_iter().map(|(partition, to)| (partition, Offset::Offset(to)));
        let sent = desk::list(&self.poller.state.topic, offsets).and_then(|list| self.send(list));
        match sent {
            Ok(()) => self.sent = Some(asked),
            Err(fault) => answer(asked, &fault),
        }
    }

    /// Has a commit sent.
    fn send(&mut self, list: TopicPartitionList) -> Result<(), Fault> {
        let committer = match self.committer.take() {
            Some(committer) => committer,
            None => self.committer()?,
        };
        let sent = committer.send(list);
        self.committer = Some(committer);
        sent
    }

    fn committer(&self) -> Result<Committer, Fault> {
        let (listener, wake, shared) = (self.listener.clone(), waker(&self.filled), self.poller.shared.clone());
        Committer::start(&self.consumer, move |failed| {
            listener.tell(News::Committed(failed));
            shared.urgent.store(true, Ordering::Release);
            wake();
        })
    }

    /// A commit's answer has come. It is one for all of its partitions: what the server refuses of one partition of a
    /// topic, it refuses of all.
    fn committed(&mut self, answer: Option<Code>) {
        let Some(asked) = self.sent.take() else { return };
        let mut again = Vec::new();
        let (recent, topic) = (&self.poller.clients.recent, &self.poller.state.topic);
        let passes =
            |code| is_of_the_moment(code) || recent.is_unheard(topic, &Fault::of_code(code, Outcome::NotApplied));
        let mut held = self.poller.held();
        for mut one in asked {
            let mut failure: Option<Code> = None;
            let mut left = Vec::new();
            for (partition, to) in std::mem::take(&mut one.offsets) {
                match answer {
                    None => held.committed(partition, to),
                    Some(code) if !held.has(partition) || is_over(code) => one.others.push(partition),
                    Some(code) => {
                        if is_lost(code) {
                            held.doubt(partition);
                        }
                        failure = failure.filter(|code| !passes(*code)).or(Some(code));
                        left.push((partition, to));
                    }
                }
            }
            match failure {
                None => {
                    one.others.sort_unstable();
                    let _ = one.reply.send(Ok(one.others));
                }
                Some(code) if passes(code) => {
                    one.offsets = left;
                    again.push(one);
                }
                Some(code) => {
                    let _ = one.reply.send(Err(Fault::of_code(code, Outcome::Unknown).into()));
                }
            }
        }
        if again.is_empty() {
            return;
        }
        held.commit_again(again);
        drop(held);
        self.later();
    }

    /// Lets units commit, one at a time.
    fn units(&mut self) {
        let mut held = self.poller.held();
        if self.sent.is_some() || held.unit_open {
            return;
        }
        let Some(asked) = held.unit() else { return };
        if asked.reply.is_closed() {
            return;
        }
        if !held.doubtful().is_empty() {
            return held.unit_again(asked);
        }
        let (offsets, others) = held.split(&asked.positions);
        if !others.is_empty() {
            let _ = asked.reply.send(Err(super::revoked(&others)));
            return;
        }
        drop(held);
        let Some(metadata) = self.consumer.group_metadata() else {
            let fault = Fault::unreachable("the member is about to leave");
            let _ = asked.reply.send(Err(fault.into()));
            return;
        };
        self.poller.held().unit_open = true;
        // Dropped, it gives way to the next.
        let ticket = Ticket::new(self.poller.shared.clone(), metadata, offsets);
        let _ = asked.reply.send(Ok(ticket));
    }

    /// Takes records from the queues as far as there is room, and says whether there may be more.
    fn fill(&mut self) -> bool {
        let (mut more, mut full) = (false, false);
        let mut astray = Vec::new();
        for (partition, reader) in &mut self.readers {
            let Some(queue) = reader.queue.as_ref().filter(|_| !reader.restart && !reader.astray) else { continue };
            let room = self.poller.held().room(*partition).min(TURN);
            full |= room == 0;
            let mut taken = Vec::new();
            let urgent = || self.poller.shared.urgent.load(Ordering::Acquire);
            while taken.len() < room && !urgent() {
                match queue.poll(Duration::ZERO) {
                    Some(Ok(message)) => {
                        let offset = message.offset();
                        if reader.next.is_some_and(|next| offset < next) {
                            continue;
                        }
                        reader.next = Some(offset.saturating_add(1));
                        let position = Position::new(*partition, u128::try_from(offset).unwrap_or(0));
                        let record = read_record(&self.poller.state.known, &message, &mut self.copies);
                        taken.push(Ahead::Record(Stored { position, attempt: 1, record }));
                    }
                    Some(Err(error)) => {
                        astray.push((*partition, error));
                        break;
                    }
                    None => break,
                }
            }
            more |= urgent();
            if taken.is_empty() {
                continue;
            }
            more |= taken.len() == room;
            self.poller.held().push(*partition, taken);
            self.poller.shared.changed.notify_one();
        }
        self.poller.held().full = full;
        for (partition, error) in astray {
            more = true;
            match code_of(&error) {
                Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation | Code::NoOffset) => {
                    if let Some(reader) = self.readers.get_mut(&partition) {
                        reader.astray = true;
                    }
                }
                _ => self.failed(&error),
            }
        }
        more
    }

    /// Lets the consumer go: agrees to everything, leaves the group and closes the connections.
    fn leave(mut self) {
        let closed = self.poller.clients.stopped();
        let (kind, text) = if closed {
            (ErrorKind::Closed, "the broker was closed")
        } else {
            (ErrorKind::Revoked, "the member has left the group")
        };
        self.poller.held().end(kind, text);
        self.poller.shared.changed.notify_one();
        self.readers.clear();
        self.listener.leave();
        for news in self.listener.take() {
            match news {
                News::Assign(partitions) => self.changes.push_back(Change::Assign(unsigned(&partitions))),
                News::Revoke { partitions, .. } => self.changes.push_back(Change::Revoke(unsigned(&partitions))),
                News::Committed(answer) => self.committed(answer),
                News::Trouble(_) => {}
            }
        }
        // What isn't agreed to would never end.
        for change in std::mem::take(&mut self.changes) {
            let (Change::Assign(partitions) | Change::Revoke(partitions)) = &change;
            let offsets = partitions.iter().map(|partition| (*partition, Offset::Invalid));
            if let Ok(list) = desk::list(&self.poller.state.topic, offsets) {
                let _ = match change {
                    Change::Assign(_) => self.consumer.incremental_assign(&list),
                    Change::Revoke(_) => self.consumer.incremental_unassign(&list),
                };
            }
        }
        let since = Instant::now();
        self.arrive(since);
        self.say_farewell();
        // A close doesn't wait for one after the other.
        let is_answered = self.end_commits(if closed { since } else { Instant::now() });
        if let Some(asked) = self.sent.take() {
            answer(asked, &Fault::new(kind, Outcome::Unknown, text));
        }
        // Dropping it would take a tenth of a second to see that it is closed. Where a commit isn't answered, it goes with the
        // thread that waits for that.
        if is_answered && self.consumer.close_queue().is_ok() {
            while !self.consumer.closed() {
                let _ = self.consumer.poll(CLOSING);
            }
        }
    }

    /// Waits for a while until the member is in the group. One that goes before it knows that it has joined leaves a
    /// name behind, for which everyone else waits as long as a session.
    fn arrive(&self, since: Instant) {
        let clients = &self.poller.clients;
        while self.listener.is_joining() && self.consumer.client().fatal_error().is_none() {
            // A join takes that long where it has to wait for one that is gone.
            let most = if clients.stopped() { ARRIVAL } else { clients.settings.session_timeout + ARRIVAL };
            if since.elapsed() >= most {
                break;
            }
            let _ = self.consumer.poll(Duration::from_millis(5));
        }
    }

    /// Leaves where the member has no partition: librdkafka closes such a one without a word, so that everyone else would
    /// wait for it as long as a session. One with a name keeps its place.
    fn say_farewell(&self) {
        let none = self.consumer.assignment().is_ok_and(|partitions| partitions.count() == 0);
        if none && self.poller.instance.is_none() {
            self.consumer.unsubscribe();
        }
    }

    /// Lets the thread that commits end, and says whether it did: where the server hangs it may wait for an answer for long.
    fn end_commits(&mut self, since: Instant) -> bool {
        self.committer = None;
        while Arc::strong_count(&self.consumer) > 1 {
            if since.elapsed() >= ARRIVAL {
                return false;
            }
            let _ = self.consumer.poll(Duration::from_millis(1));
        }
        if self.listener.take().iter().any(|news| matches!(news, News::Committed(None))) {
            self.committed(None);
        }
        true
    }
}

fn answer(asked: Vec<Asked>, fault: &Fault) {
    for one in asked {
        let _ = one.reply.send(Err(BackendError::from(fault.clone())));
    }
}

fn unsigned(partitions: &[i32]) -> Vec<u32> {
    partitions.iter().filter_map(|partition| u32::try_from(*partition).ok()).collect()
}

/// What is called when a queue gets something, on a thread of librdkafka's.
fn waker(filled: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
    let (thread, filled) = (std::thread::current(), filled.clone());
    move || {
        if !filled.swap(true, Ordering::AcqRel) {
            thread.unpark();
        }
    }
}

/// Whether a commit was refused for what is over in a moment, so that it is sent again.
fn is_of_the_moment(code: Code) -> bool {
    matches!(
        code,
        Code::RebalanceInProgress
            | Code::IllegalGeneration
            | Code::UnknownMemberId
            | Code::StaleMemberEpoch
            | Code::WaitingForCoordinator
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
    )
}

/// Whether the member's place is another's.
fn is_over(code: Code) -> bool {
    matches!(code, Code::FencedInstanceId | Code::Fatal)
}

/// Whether a commit may have been recorded though it failed.
fn is_lost(code: Code) -> bool {
    !is_of_the_moment(code) && Fault::of_code(code, Outcome::Unknown).outcome == Outcome::Unknown
}

/// Says that the thread has ended, however it did.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.0.held).end(ErrorKind::Unavailable, "the member's thread ended");
        self.0.gone.send_replace(true);
        self.0.changed.notify_one();
    }
}
