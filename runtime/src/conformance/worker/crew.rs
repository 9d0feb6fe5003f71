//! A stream, a group and workers that write down what they do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::broker::{Broker, Limits, lock};
use crate::capability::{AckGroups, Log};
use crate::conformance::rule::{Rule, limits};
use crate::conformance::{PATIENCE, Subject};
use crate::error::{Cause, Error, ErrorKind};
use crate::stream::{AckGroup, Delivery, Position, Start, Stream, StreamSettings};
use crate::stream_spec;
use crate::topic::{Ended, Gap, Stop, SupervisePolicy};
use crate::worker::{Worker, WorkerNotice};

/// What the workers are given.
#[stream_spec(name = "conformance.work", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(in crate::conformance) struct Work {
    pub(in crate::conformance) n: u64,
    pub(in crate::conformance) filler: String,
}

/// Another shape under the same name and version, which doesn't decode as [`Work`].
#[stream_spec(name = "conformance.work", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize)]
struct Riddle {
    riddle: bool,
}

/// How long an entry may be idle before the suite's workers claim it. A stall of the machine mustn't be longer.
pub(in crate::conformance) const IDLE: Duration = Duration::from_millis(900);

/// What a worker did or told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::conformance) enum Seen {
    /// A handler was called, by the worker of this name.
    Began {
        who: &'static str,
        n: u64,
        attempt: u32,
    },
    /// A handler returned.
    Done {
        n: u64,
    },
    /// A handler was dropped.
    Dropped {
        n: u64,
    },
    /// A handler of batches was called, and whether it has returned.
    Batch {
        numbers: Vec<u64>,
        over: bool,
    },
    Ready,
    Interrupted(ErrorKind),
    Failed(ErrorKind),
    Gap(Cause, u32),
    /// The gap callback was called.
    Told(Cause),
    Unsettled(Position, u32, ErrorKind),
    Lost(usize),
    TakenOver(usize),
    Assigned(Vec<u32>),
    Revoked(Vec<u32>),
    Trimmed(Position),
    HeldUp(Position),
    Retrying {
        position: Position,
        attempt: u32,
        after: Duration,
        kind: ErrorKind,
    },
    Undelivered(Position),
    /// A worker returned.
    Ended(String),
}

impl Seen {
    /// What a notice is written down as.
    pub(in crate::conformance) fn of(notice: WorkerNotice<'_>) -> Option<Self> {
        Some(match notice {
            WorkerNotice::Ready => Self::Ready,
            WorkerNotice::Interrupted { error } => Self::Interrupted(error.kind()),
            WorkerNotice::Failed { error, .. } => Self::Failed(error.kind()),
            WorkerNotice::Gap(gap) => Self::Gap(gap.cause, gap.attempts),
            WorkerNotice::Unsettled { position, attempt, error } => Self::Unsettled(position, attempt, error.kind()),
            WorkerNotice::Lost { positions } => Self::Lost(positions.len()),
            // When it comes depends on the clock; the deliveries tell of it, too.
            WorkerNotice::Claimed { .. } => return None,
            WorkerNotice::TakenOver { positions } => Self::TakenOver(positions.len()),
            WorkerNotice::Assigned { partitions } => Self::Assigned(partitions.to_vec()),
            WorkerNotice::Revoked { partitions } => Self::Revoked(partitions.to_vec()),
            WorkerNotice::Trimmed { first, .. } => Self::Trimmed(first),
            WorkerNotice::HeldUp { position } => Self::HeldUp(position),
            WorkerNotice::Retrying { position, attempt, after, error } => {
                Self::Retrying { position, attempt, after, kind: error.kind() }
            }
            WorkerNotice::Undelivered { position } => Self::Undelivered(position),
        })
    }
}

/// Everything that the workers did, in order.
#[derive(Debug, Default)]
pub(in crate::conformance) struct Journal {
    state: Mutex<Written>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Written {
    seen: Vec<Seen>,
    running: usize,
    peak: usize,
}

impl Journal {
    pub(in crate::conformance) fn write(&self, seen: Seen) {
        let mut state = lock(&self.state);
        match &seen {
            Seen::Began { .. } | Seen::Batch { over: false, .. } => state.running += 1,
            Seen::Done { .. } | Seen::Dropped { .. } | Seen::Batch { over: true, .. } => {
                state.running = state.running.saturating_sub(1);
            }
            _ => {}
        }
        state.peak = state.peak.max(state.running);
        state.seen.push(seen);
        drop(state);
        self.changed.notify_waiters();
    }

    async fn wait(&self, wanted: impl Fn(&Written) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if wanted(&lock(&self.state)) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until so many handlers have run at once.
    pub(in crate::conformance) async fn peaked(&self, handlers: usize) {
        self.wait(|state| state.peak >= handlers).await;
    }

    pub(in crate::conformance) fn peak(&self) -> usize {
        lock(&self.state).peak
    }

    pub(in crate::conformance) fn seen(&self) -> Vec<Seen> {
        lock(&self.state).seen.clone()
    }

    /// Waits until this is true of what was written.
    pub(in crate::conformance) async fn until(&self, rule: Rule, what: &str, wanted: impl Fn(&[Seen]) -> bool) {
        let in_time = tokio::time::timeout(PATIENCE, self.wait(|state| wanted(&state.seen))).await;
        if in_time.is_err() {
            let seen = self.seen();
            let last = &seen[seen.len().saturating_sub(40)..];
            panic!("{}: hung: {what}; last seen, of {}: {last:?}", rule.0, seen.len());
        }
    }

    /// The numbers whose handlers returned, in order.
    pub(in crate::conformance) fn done(&self) -> Vec<u64> {
        done(&lock(&self.state).seen)
    }

    /// What was handed to handlers, in order: numbers and attempts.
    pub(in crate::conformance) fn began(&self) -> Vec<(u64, u32)> {
        let began = |seen: &Seen| match seen {
            Seen::Began { n, attempt, .. } => Some((*n, *attempt)),
            _ => None,
        };
        lock(&self.state).seen.iter().filter_map(began).collect()
    }
}

pub(in crate::conformance) fn done(seen: &[Seen]) -> Vec<u64> {
    seen.iter().filter_map(|seen| if let Seen::Done { n } = seen { Some(*n) } else { None }).collect()
}

pub(in crate::conformance) fn count(seen: &[Seen], wanted: impl Fn(&Seen) -> bool) -> usize {
    seen.iter().filter(|seen| wanted(seen)).count()
}

/// What each handler gets beside its delivery.
#[derive(Clone)]
pub(in crate::conformance) struct Hand {
    pub(in crate::conformance) who: &'static str,
    pub(in crate::conformance) journal: Arc<Journal>,
    /// Open once it is pulled.
    pub(in crate::conformance) gate: Stop,
}

/// A handler's call that is under way.
pub(in crate::conformance) struct Doing {
    pub(in crate::conformance) n: u64,
    journal: Option<Arc<Journal>>,
}

impl Hand {
    pub(in crate::conformance) fn begin(&self, delivery: &Delivery<Work>) -> Doing {
        let n = delivery.value().expect("a worker's deliveries have decoded").n;
        self.journal.write(Seen::Began { who: self.who, n, attempt: delivery.attempt() });
        Doing { n, journal: Some(self.journal.clone()) }
    }
}

impl Doing {
    pub(in crate::conformance) fn done(mut self) {
        if let Some(journal) = self.journal.take() {
            journal.write(Seen::Done { n: self.n });
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.write(Seen::Dropped { n: self.n });
        }
    }
}

/// One broker's handles to the stream and a group, and what its workers share.
pub(in crate::conformance) struct Crew<B: Log, G = AckGroup<Work, B>> {
    pub(in crate::conformance) rule: Rule,
    pub(in crate::conformance) broker: Broker<B>,
    pub(in crate::conformance) stream: Stream<Work, B>,
    pub(in crate::conformance) group: G,
    pub(in crate::conformance) journal: Arc<Journal>,
    pub(in crate::conformance) stop: Stop,
    pub(in crate::conformance) gate: Stop,
    pub(in crate::conformance) numbers: Mutex<HashMap<Position, u64>>,
}

impl<B: AckGroups> Crew<B> {
    /// Starts with an empty stream of one partition and a group.
    pub(in crate::conformance) async fn start<S: Subject<Backend = B>>(rule: Rule, subject: &S) -> Self {
        Self::with(rule, subject, StreamSettings::new(), limits()).await
    }

    /// Starts with a stream that keeps so many records, or all.
    pub(in crate::conformance) async fn keeping<S: Subject<Backend = B>>(
        rule: Rule,
        subject: &S,
        max_len: Option<u64>,
    ) -> Self {
        let mut settings = StreamSettings::new();
        settings.max_len = max_len;
        Self::with(rule, subject, settings, limits()).await
    }

    pub(in crate::conformance) async fn with<S: Subject<Backend = B>>(
        rule: Rule,
        subject: &S,
        settings: StreamSettings,
        limits: Limits,
    ) -> Self {
        let crew = Self::beside(rule, subject, limits);
        rule.ok("deleting the stream of before", crew.stream.delete()).await;
        rule.ok("ensuring the stream", crew.stream.ensure(settings)).await;
        rule.ok("ensuring the group", crew.group.ensure(Start::Earliest)).await;
        crew
    }

    /// Another process's handles to the same, by a broker that has ensured nothing.
    pub(in crate::conformance) fn beside<S: Subject<Backend = B>>(rule: Rule, subject: &S, limits: Limits) -> Self {
        let broker = rule.broker_with(subject, limits);
        let stream = rule.unwrap("binding", Work::stream(&broker));
        let group = rule.unwrap("looking up the group", stream.ack_group("crew"));
        let (stop, gate) = (Stop::new(), Stop::new());
        Self { rule, broker, stream, group, journal: Arc::default(), stop, gate, numbers: Mutex::default() }
    }

    /// Makes a worker that writes down what it tells, and whose handler gets a hand.
    pub(in crate::conformance) fn worker(&self, name: &'static str) -> Worker<Work, B, Hand> {
        let (noted, told) = (self.journal.clone(), self.journal.clone());
        self.group
            .worker(name)
            .claim_after(IDLE)
            .backoff(quick())
            .with(self.hand(name))
            .until(&self.stop)
            .on_notice(move |notice| {
                if let Some(seen) = Seen::of(notice) {
                    noted.write(seen);
                }
            })
            .on_gap(move |gap: Gap, _| {
                told.write(Seen::Told(gap.cause));
                std::future::ready(Ok(()))
            })
    }

    /// The numbers that are pending in the group.
    pub(in crate::conformance) async fn pending(&self) -> BTreeSet<u64> {
        let most = self.broker.limits().read_records;
        let listed = self.rule.ok("listing what is pending", self.group.pending(None, most)).await;
        let numbers = lock(&self.numbers);
        listed.iter().map(|entry| numbers.get(&entry.position).copied().unwrap_or(u64::MAX)).collect()
    }

    /// Waits until exactly these numbers are pending.
    pub(in crate::conformance) async fn pending_is(&self, what: &str, expected: impl IntoIterator<Item = u64>) {
        let expected: BTreeSet<u64> = expected.into_iter().collect();
        let last = Mutex::new(BTreeSet::new());
        let look = async {
            loop {
                let pending = self.pending().await;
                if pending == expected {
                    return;
                }
                *lock(&last) = pending;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, look).await;
        assert!(seen.is_ok(), "{}: {what}: pending is {:?}, not {expected:?}", self.rule.0, lock(&last));
    }
}

impl<B: Log, G> Crew<B, G> {
    /// The same with a journal and a token of its own.
    pub(in crate::conformance) fn again(self) -> Self {
        Self { stop: Stop::new(), journal: Arc::default(), ..self }
    }

    /// Appends these numbers, under the keys 0 to `keys` in turn.
    pub(in crate::conformance) async fn append(&self, numbers: impl IntoIterator<Item = u64>, keys: u64) {
        self.append_filled(numbers, keys, 0).await;
    }

    pub(in crate::conformance) async fn append_filled(
        &self,
        numbers: impl IntoIterator<Item = u64>,
        keys: u64,
        bytes: usize,
    ) {
        let works: Vec<_> = numbers.into_iter().map(|n| (n % keys, Work { n, filler: "x".repeat(bytes) })).collect();
        for part in works.chunks(500) {
            let appending = self.stream.append_all(part.iter().map(|(key, work)| (key, work)));
            let receipts = self.rule.ok("appending", appending).await;
            for (receipt, (_, work)) in receipts.into_iter().zip(part) {
                let receipt = self.rule.unwrap("appending", receipt);
                let position = receipt.position.expect("a backend with groups tells positions");
                lock(&self.numbers).insert(position, work.n);
            }
        }
    }

    /// Appends a record that doesn't decode, in the place of this number.
    pub(in crate::conformance) async fn append_riddle<S: Subject<Backend = B>>(&self, subject: &S, n: u64, keys: u64) {
        let broker = self.rule.broker(subject);
        let stream = self.rule.unwrap("binding", Riddle::stream(&broker));
        let receipt = self.rule.ok("appending", stream.append(&(n % keys), &Riddle { riddle: true })).await;
        lock(&self.numbers).insert(receipt.position.expect("positions are told"), n);
    }

    pub(in crate::conformance) fn hand(&self, who: &'static str) -> Hand {
        Hand { who, journal: self.journal.clone(), gate: self.gate.clone() }
    }

    /// Runs workers beside a script, which stops them, and returns how they ended.
    pub(in crate::conformance) async fn during<R>(
        &self,
        working: impl Future<Output = Result<Ended, Error>>,
        script: impl Future<Output = R>,
    ) -> (Result<Ended, Error>, R) {
        let working = async {
            let ended = working.await;
            self.journal.write(Seen::Ended(format!("{ended:?}")));
            ended
        };
        let both = async { tokio::join!(Box::pin(working), Box::pin(script)) };
        let Ok(both) = tokio::time::timeout(PATIENCE * 6, both).await else {
            panic!("{}: hung: the worker doesn't end; last seen: {:?}", self.rule.0, self.journal.seen().last());
        };
        both
    }

    /// As [`during`](Self::during), where the worker must end by its token.
    pub(in crate::conformance) async fn stopped<R>(
        &self,
        working: impl Future<Output = Result<Ended, Error>>,
        script: impl Future<Output = R>,
    ) -> R {
        let (ended, result) = self.during(working, script).await;
        self.rule.same("how the worker ended", self.rule.unwrap("working", ended), Ended::Stopped);
        result
    }

    pub(in crate::conformance) async fn until(&self, what: &str, wanted: impl Fn(&[Seen]) -> bool) {
        self.journal.until(self.rule, what, wanted).await;
    }

    /// Waits until so many handlers have returned.
    pub(in crate::conformance) async fn handled(&self, handlers: usize) {
        self.until(&format!("{handlers} handlers return"), |seen| {
            count(seen, |seen| matches!(seen, Seen::Done { .. })) >= handlers
        })
        .await;
    }

    /// The number that stands at a position.
    pub(in crate::conformance) fn number(&self, position: Position) -> u64 {
        lock(&self.numbers).get(&position).copied().unwrap_or(u64::MAX)
    }

    /// Says that each of these was handled once, and nothing else was.
    pub(in crate::conformance) fn each_once(&self, what: &str, numbers: impl IntoIterator<Item = u64>) {
        let expected: BTreeMap<u64, usize> = numbers.into_iter().map(|n| (n, 1)).collect();
        let mut handled: BTreeMap<u64, usize> = BTreeMap::new();
        for n in self.journal.done() {
            *handled.entry(n).or_default() += 1;
        }
        let differs: Vec<_> = expected
            .keys()
            .chain(handled.keys())
            .filter(|n| expected.get(n) != handled.get(n))
            .map(|n| (*n, handled.get(n).copied().unwrap_or(0)))
            .collect();
        assert!(differs.is_empty(), "{}: {what}: handled not once each, as (number, times): {differs:?}", self.rule.0);
    }
}

/// A handler that notes what it got, and is done.
#[allow(clippy::needless_pass_by_value, reason = "as a handler gets it")]
pub(in crate::conformance) fn note(
    delivery: Delivery<Work>,
    hand: Hand,
) -> std::future::Ready<Result<(), crate::error::HandlerError>> {
    hand.begin(&delivery).done();
    std::future::ready(Ok(()))
}

/// A handler that notes what it got, and is done once the gate is open.
pub(in crate::conformance) async fn gated(
    delivery: Delivery<Work>,
    hand: Hand,
) -> Result<(), crate::error::HandlerError> {
    let doing = hand.begin(&delivery);
    hand.gate.stopped().await;
    doing.done();
    Ok(())
}

pub(in crate::conformance) fn quick() -> SupervisePolicy {
    SupervisePolicy::default().initial(Duration::from_millis(5)).max(Duration::from_millis(50))
}
