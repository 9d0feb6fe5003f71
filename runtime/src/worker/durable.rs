//! The worker over a durable.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::queue::Queue;
use super::shared::{
    CancelledWhenDropped, FIRST_AVERAGE, Halt, Many, One, measured, problems, start_after, start_slots,
};
use super::slot::{Handler, Retry};
use super::{Worker, WorkerNotice};
use crate::broker::{Tracked, lock};
use crate::capability::{BackendError, BoundDurable, Cursors, Pulled, Stored, Ticket, Verdict};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, HandlerError, Operation};
use crate::stream::{Delivery, Durable, DurableSettings, Position, Positions, Stream};
use crate::telemetry;
use crate::topic::{Backoff, Ended, Ends, Interruption, Stop, SupervisePolicy};

/// A pull waits at most so long, since one without end couldn't be told from one that hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How often it looks up to where everything is settled.
const LOOK: Duration = Duration::from_secs(1);
/// How long after its delay a delivery that failed is expected here, before what is behind it of its key goes on.
const EXPECTED: Duration = Duration::from_secs(5);
/// How long giving back may take once a stop's budget is over.
const GIVE_BACK: Duration = Duration::from_secs(1);

impl<T, B, S> Worker<T, B, S, Durable<T, B>>
where
    T: StreamSpec + Send + 'static,
    T::Codec: Decode<T>,
    B: Cursors,
    S: Clone + Send + Sync + 'static,
{
    /// Runs until it is stopped or dropped, the broker closes, or it can't go on.
    ///
    /// The handler gets a delivery whose value has decoded, and a clone of the state.
    ///
    /// # Errors
    ///
    /// `Callback` or `Panicked` of the gap callback, `Overloaded` when too many keys are paused, or what makes another
    /// attempt pointless: `Invalid` with every setting out of its bounds, `Unsupported`, `Conflict` where the durable has
    /// fewer deliveries in flight than this worker handles at once, and `Absent` where it isn't there at first and this
    /// broker hasn't [ensured](crate::Durable::ensure) it. A server that is out of reach or refuses is tried again for ever:
    /// [`on_notice`](Self::on_notice) tells each attempt.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the handlers under way. What was delivered to it comes again once its ack wait is over. So does
    /// closing the broker; a stop token lets the handlers finish and gives back the rest.
    pub async fn run<H, Handling>(self, handler: H) -> Result<Ended, Error>
    where
        H: Fn(Delivery<T>, S) -> Handling + Send + Sync + 'static,
        Handling: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let state = self.state.clone();
        self.drive(One { handler, state }).await
    }

    /// Runs with a handler of batches: whatever waits, at least one and at most `max` deliveries, at most one of each key.
    ///
    /// A batch never waits to fill up. When the handler fails, all of it comes again. A delivery that doesn't decode is left
    /// out.
    ///
    /// # Errors
    ///
    /// `Invalid` for a `max` outside 1 to 65,536; otherwise as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn run_batches<H, Handling>(self, max: usize, handler: H) -> Result<Ended, Error>
    where
        H: Fn(Vec<Delivery<T>>, S) -> Handling + Send + Sync + 'static,
        Handling: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handler = Many { handler, state: self.state.clone(), max };
        if let Some(problem) = handler.problem() {
            return Err(self.group.error(ErrorKind::Invalid, Operation::Work).detail(problem));
        }
        self.drive(handler).await
    }

    async fn drive<H: Handler<T>>(self, handler: H) -> Result<Ended, Error> {
        let problems = problems(&self);
        if !problems.is_empty() {
            return Err(self.group.error(ErrorKind::Invalid, Operation::Work).detail(problems.join("; ")));
        }
        let stream = self.group.stream().clone();
        let name = format!("worker of `{}` of `{}`", self.group.name(), stream.declaration());
        let _entry = stream.host().shared().tracker.enter(Tracked::Callback, name);
        let policy = SupervisePolicy {
            initial: self.settings.retry_first,
            max: self.settings.retry_most,
            ..SupervisePolicy::default()
        };
        let retry = Arc::new(Retry { policy, most: AtomicU32::new(0) });
        let queue = start_slots(&self, &stream, handler, Some(&retry));
        let _cancelled = CancelledWhenDropped(queue.clone());
        let run = Run {
            average: Mutex::new(FIRST_AVERAGE),
            held: Mutex::default(),
            settings: Mutex::default(),
            settled: Mutex::default(),
            progress: AtomicBool::new(true),
            expects: Notify::new(),
            held_up: Mutex::default(),
            worker: self,
            stream,
            queue,
            retry,
        };
        // In a box: what a backend does for it would make the caller's future large.
        Box::pin(run.supervise()).await
    }
}

struct Run<T: StreamSpec, B: Cursors, S> {
    worker: Worker<T, B, S, Durable<T, B>>,
    stream: Stream<T, B>,
    queue: Arc<Queue>,
    retry: Arc<Retry>,
    /// Bytes of a record, of late.
    average: Mutex<usize>,
    /// What was handed out to this worker and isn't settled.
    held: Mutex<HashMap<Position, Held>>,
    settings: Mutex<DurableSettings>,
    /// Up to where everything was settled when it was last looked up.
    settled: Mutex<Positions>,
    /// Whether something was settled since.
    progress: AtomicBool,
    /// Told when something is to come again.
    expects: Notify,
    /// What holds everything up, once it is told.
    held_up: Mutex<Option<Position>>,
}

/// A delivery of this worker.
struct Held {
    ticket: Ticket,
    attempt: u32,
    key: Option<Bytes>,
    /// Since when its ack wait runs.
    since: Instant,
    /// Once it is refused: when it comes again.
    again: Option<Instant>,
}

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: Cursors,
    S: Clone + Send + Sync + 'static,
{
    async fn supervise(&self) -> Result<Ended, Error> {
        let host = self.stream.host();
        let mut ends = Ends::new(host, self.worker.stop.as_ref());
        let mut backoff = Backoff::new(self.worker.settings.backoff);
        let mut interruption: Option<Interruption> = None;
        let (mut vanished, mut was_ready) = (false, false);
        let mut handle: Option<B::Durable> = None;
        let ended = loop {
            let error = match ends.first(self.go_on(&mut handle, vanished)).await {
                Err(ended) => break ended,
                Ok(Err(error)) => error,
                Ok(Ok(())) => {
                    let Some(bound) = &handle else { continue };
                    (was_ready, vanished) = (true, false);
                    self.notice(WorkerNotice::Ready);
                    if let Some(interruption) = interruption.take()
                        && let Some(ended) = self.worker.tell_gap(&self.stream, interruption.over(), &mut ends).await?
                    {
                        break ended;
                    }
                    let since = Instant::now();
                    let halt = match ends.first(self.session(bound)).await {
                        Err(ended) => break ended,
                        Ok(Halt::Failed(error)) => {
                            self.drain(handle, Instant::now()).await;
                            return Err(error);
                        }
                        Ok(Halt::Interrupted(error)) => error,
                    };
                    if since.elapsed() >= self.worker.settings.backoff.stable_after {
                        backoff.start_over();
                    }
                    if halt.kind() != ErrorKind::Closed {
                        self.notice(WorkerNotice::Interrupted { error: &halt });
                    }
                    halt
                }
            };
            let kind = error.kind();
            if kind == ErrorKind::Closed {
                break Ended::Closed;
            }
            // Rights are often granted later.
            let hopeless = !error.is_transient() && kind != ErrorKind::Forbidden;
            let never_there = kind == ErrorKind::Absent && !was_ready && !self.worker.group.bound.is_ensured();
            if hopeless || never_there {
                self.drain(handle, Instant::now()).await;
                return Err(error);
            }
            if kind == ErrorKind::Absent && !vanished {
                vanished = true;
                handle = None;
                self.lost();
            }
            self.worker.interrupted(&self.stream, &mut interruption, &error, was_ready);
            self.queue.settle_again();
            if let Err(ended) = ends.first(sleep(backoff.wait(host.random()))).await {
                break ended;
            }
        };
        if ended == Ended::Stopped {
            self.drain(handle, Instant::now()).await;
        }
        telemetry::supervision_ended(self.stream.declaration(), self.system(), ended);
        Ok(ended)
    }

    fn system(&self) -> &'static str {
        self.stream.broker().inner.system
    }

    fn notice(&self, notice: WorkerNotice<'_>) {
        self.worker.tell(notice);
    }

    fn error(&self, kind: ErrorKind) -> Error {
        self.stream.error(kind, Operation::Work)
    }

    async fn operate<R>(&self, run: impl Future<Output = Result<R, BackendError>> + Send) -> Result<R, Error> {
        self.stream.operate(Operation::Work, run).await
    }

    fn is_stopped(&self) -> bool {
        self.worker.stop.as_ref().is_some_and(Stop::is_stopped)
    }

    /// Binds the durable, which is made anew where it is gone, and looks whether it hands out enough.
    async fn go_on(&self, handle: &mut Option<B::Durable>, vanished: bool) -> Result<(), Error> {
        let durable = &self.worker.group;
        if vanished && let Some(settings) = durable.bound.durable() {
            match (self.make_durable(&settings).await, self.stream.bound.ensured()) {
                (Err(error), Some(stream)) if error.kind() == ErrorKind::Absent => {
                    let address = &self.stream.bound.address;
                    self.operate(B::ensure(self.stream.client(), address, &stream)).await?;
                    self.make_durable(&settings).await?;
                }
                (made, _) => drop(made?),
            }
        }
        let info = durable.inspect(Operation::Work).await?;
        let (concurrency, in_flight) = (self.worker.settings.concurrency, info.settings.in_flight);
        if concurrency as u64 > u64::from(in_flight) {
            let detail = format!(
                "the durable `{}` has at most {in_flight} deliveries in flight and this worker handles {concurrency} at \
                 once; `update` its `in_flight`, or lower `concurrency`",
                durable.name()
            );
            return Err(self.error(ErrorKind::Conflict).detail(detail));
        }
        self.retry.most.store(info.settings.max_deliver.unwrap_or(0), Ordering::Relaxed);
        *lock(&self.settings) = info.settings;
        if handle.is_none() {
            *handle = Some(durable.bind(Operation::Work).await?);
        }
        // What came back meanwhile is still on its way.
        let expected = Instant::now();
        for held in lock(&self.held).values_mut() {
            held.again = held.again.map(|again| again.max(expected));
        }
        Ok(())
    }

    /// Makes the durable, after the highest position up to which everything is known to be settled.
    async fn make_durable(&self, settings: &DurableSettings) -> Result<bool, Error> {
        let (client, bound) = (self.stream.client(), &self.worker.group.bound);
        let known = lock(&self.settled).clone();
        let start = start_after(&self.stream, known, bound.start()).await?;
        self.operate(B::ensure_durable(client, &bound.address, &settings.clone().start(start))).await
    }

    /// The durable is gone, and what it handed out with it. All of that comes again, or other records do in its place.
    fn lost(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        let under_way = self.queue.under_way();
        let keys = under_way.iter().filter_map(|position| held.get(position)?.key.clone()).collect();
        self.queue.lost(&keys);
    }

    /// Works until something goes wrong.
    async fn session(&self, handle: &B::Durable) -> Halt {
        let mut intake = pin!(async {
            match self.read_ahead(handle).await {
                Err(error) => error,
                Ok(never) => match never {},
            }
        });
        let mut settling = pin!(async {
            match self.settle(handle, || self.queue.has_ended()).await {
                Err(error) => error,
                // The handlers end by a stop as well.
                Ok(()) if self.is_stopped() => std::future::pending().await,
                Ok(()) => self.error(ErrorKind::Panicked).detail("the tasks of the handlers ended"),
            }
        });
        let mut keeping = pin!(self.keep(handle));
        let mut failing = pin!(self.queue.fatal());
        poll_fn(|cx| {
            if let Poll::Ready(error) = failing.as_mut().poll(cx) {
                return Poll::Ready(Halt::Failed(error));
            }
            if let Poll::Ready(error) = settling.as_mut().poll(cx) {
                return Poll::Ready(Halt::Interrupted(error));
            }
            if let Poll::Ready(error) = intake.as_mut().poll(cx) {
                return Poll::Ready(Halt::Interrupted(error));
            }
            keeping.as_mut().poll(cx).map(Halt::Interrupted)
        })
        .await
    }

    async fn read_ahead(&self, handle: &B::Durable) -> Result<std::convert::Infallible, Error> {
        // What was asked for may come at any time, so it is always waited for, and there is room for it.
        let mut asked = 0;
        loop {
            let max = if asked == 0 { self.room().await } else { self.room_now().max(asked) };
            let pulled = self.stream.observe(Operation::Work, handle.pull(max, LONGEST_WAIT)).await?;
            let deliveries = pulled.iter().filter(|pulled| matches!(pulled, Pulled::Delivery(..))).count();
            asked = if pulled.is_empty() { 0 } else { max.saturating_sub(deliveries) };
            self.take(pulled);
        }
    }

    /// Takes in what was handed out.
    fn take(&self, pulled: Vec<Pulled>) {
        let mut new: Vec<Stored> = Vec::new();
        for pulled in pulled {
            let (stored, ticket) = match pulled {
                Pulled::Delivery(stored, ticket) => (stored, ticket),
                Pulled::Exhausted(position) => {
                    telemetry::undelivered(self.stream.declaration(), self.system(), position);
                    self.notice(WorkerNotice::Undelivered { position });
                    self.given_up(position);
                    continue;
                }
            };
            let key = stored.record.key.as_deref().map(Bytes::copy_from_slice);
            let (position, attempt) = (stored.position, stored.attempt);
            let held = Held { ticket, attempt, key, since: Instant::now(), again: None };
            match lock(&self.held).insert(position, held) {
                None => new.push(stored),
                Some(before) if before.again.is_some() => self.queue.again(stored),
                // Its ack wait was over, for a connection that was lost perhaps, and it is here still.
                Some(_) => {}
            }
        }
        measured(&self.average, &new);
        self.queue.push(new, false);
    }

    /// Lets go of what never comes again, or comes to another worker.
    fn given_up(&self, position: Position) {
        let held = {
            let mut held = lock(&self.held);
            if held.get(&position).is_none_or(|held| held.again.is_none()) {
                return;
            }
            held.remove(&position)
        };
        if let Some(key) = held.and_then(|held| held.key) {
            self.queue.resume(&key);
        }
    }

    /// Waits for room, or until something comes again, and says for how many deliveries.
    async fn room(&self) -> usize {
        let most = self.stream.broker().limits().read_records;
        let mut room = pin!(self.worker.wait_for_room(&self.queue));
        loop {
            let mut told = pin!(self.expects.notified());
            told.as_mut().enable();
            let now = Instant::now();
            let (due, next) = self.expected(now);
            // What comes again is handed out first, so it needs its own place and no more.
            if due > 0 && self.queue.waiting().0 < self.worker.settings.read_ahead + due {
                return due.min(most);
            }
            let mut coming = pin!(sleep_until(next.unwrap_or(now + LONGEST_WAIT)));
            let has_room = poll_fn(|cx| {
                if room.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                if told.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(false);
                }
                coming.as_mut().poll(cx).map(|()| false)
            });
            if has_room.await {
                return self.worker.room(&self.queue, &self.average, most);
            }
        }
    }

    /// For how many deliveries there is room, without waiting for more.
    fn room_now(&self) -> usize {
        if self.queue.waiting().0 > self.worker.settings.read_ahead / 2 {
            return 0;
        }
        self.worker.room(&self.queue, &self.average, self.stream.broker().limits().read_records)
    }

    /// How much should have come again by now, and when the next does.
    fn expected(&self, now: Instant) -> (usize, Option<Instant>) {
        let held = lock(&self.held);
        let again = held.values().filter_map(|held| held.again);
        let due = again.clone().filter(|again| *again <= now).count();
        (due, again.filter(|again| *again > now).min())
    }

    /// Settles what was handled and refuses what failed, all that there is each time, until nothing more comes.
    async fn settle(&self, handle: &B::Durable, has_ended: impl Fn() -> bool) -> Result<(), Error> {
        let most = self.stream.broker().limits().batch_messages;
        loop {
            let done = self.queue.to_settle(most).await;
            let again = self.queue.take_again();
            if done.is_empty() && again.is_empty() {
                if has_ended() {
                    return Ok(());
                }
                continue;
            }
            self.record(handle, &done, &again).await?;
        }
    }

    async fn record(
        &self,
        handle: &B::Durable,
        done: &[Position],
        again: &[(Position, Duration)],
    ) -> Result<(), Error> {
        let now = Instant::now();
        let mut settlements = Vec::with_capacity(done.len() + again.len());
        {
            let mut held = lock(&self.held);
            // What is gone with its durable has no ticket any longer.
            settlements.extend(done.iter().filter_map(|at| Some((held.get(at)?.ticket.clone(), Verdict::Ack))));
            for (position, delay) in again {
                if let Some(held) = held.get_mut(position) {
                    // From here on it isn't kept alive, which would take its delay back.
                    held.again = Some(now + *delay);
                    settlements.push((held.ticket.clone(), Verdict::Nak(*delay)));
                }
            }
        }
        let positions: Vec<_> =
            settlements.iter().map(|(ticket, verdict)| (ticket.position, verdict.clone())).collect();
        let mut failed = None;
        let mut not_recorded = HashSet::new();
        let settled = self.operate(async { Ok(handle.settle(settlements).await) }).await;
        let settled = settled.map_err(|error| {
            // Nothing was sent.
            not_recorded.extend(done.iter().copied());
            self.queue.keep_again(again.iter().copied());
            failed = Some(error);
        });
        for ((position, verdict), settled) in positions.into_iter().zip(settled.into_iter().flatten()) {
            match (settled, verdict) {
                (Ok(()), Verdict::Nak(delay)) => {
                    if let Some(held) = lock(&self.held).get_mut(&position) {
                        held.again = Some(Instant::now() + delay);
                    }
                }
                (Ok(()), _) => drop(lock(&self.held).remove(&position)),
                (Err(error), verdict) => {
                    if let Verdict::Nak(delay) = verdict {
                        self.queue.keep_again([(position, delay)]);
                    } else {
                        not_recorded.insert(position);
                    }
                    failed = Some(self.stream.failed(error, Operation::Work));
                }
            }
        }
        self.queue.settled_but(&not_recorded);
        self.progress.store(true, Ordering::Release);
        self.expects.notify_one();
        failed.map_or(Ok(()), Err)
    }

    /// Keeps what is here from being handed out again, and looks up to where everything is settled.
    async fn keep(&self, handle: &B::Durable) -> Error {
        loop {
            let third = lock(&self.settings).shortest_wait() / 3;
            sleep(third.min(LOOK)).await;
            let kept = async {
                self.extend(handle, third).await?;
                self.let_go();
                self.tell_held_up();
                if self.progress.swap(false, Ordering::AcqRel) {
                    *lock(&self.settled) = self.worker.group.inspect(Operation::Work).await?.settled;
                }
                Ok(())
            };
            if let Err(error) = kept.await {
                return error;
            }
        }
    }

    async fn extend(&self, handle: &B::Durable, third: Duration) -> Result<(), Error> {
        let now = Instant::now();
        let mut old = Vec::new();
        for held in lock(&self.held).values_mut().filter(|held| held.again.is_none()) {
            if now.duration_since(held.since) >= third {
                held.since = now;
                old.push((held.ticket.clone(), Verdict::InProgress));
            }
        }
        if old.is_empty() {
            return Ok(());
        }
        for kept in self.operate(async { Ok(handle.settle(old).await) }).await? {
            kept.map_err(|error| self.stream.failed(error, Operation::Work))?;
        }
        Ok(())
    }

    /// Lets what is behind a delivery go on that another worker must have got.
    fn let_go(&self) {
        let now = Instant::now();
        let is_late = |held: &Held| held.again.is_some_and(|again| again + EXPECTED <= now);
        let late: Vec<_> = lock(&self.held).iter().filter(|(_, held)| is_late(held)).map(|(at, _)| *at).collect();
        for position in late {
            self.given_up(position);
        }
    }

    /// Tells it once when all that may be in flight waits here behind what failed for good.
    fn tell_held_up(&self) {
        let most = lock(&self.settings).in_flight;
        let first = {
            let held = lock(&self.held);
            let waits = held.len() as u64 >= u64::from(most) && held.values().all(|held| held.again.is_none());
            waits
                .then(|| held.keys().min_by_key(|at| (at.partition(), at.offset())).copied())
                .flatten()
                .filter(|_| self.queue.is_stuck())
        };
        let told = std::mem::replace(&mut *lock(&self.held_up), first);
        if let Some(position) = first.filter(|_| told != first) {
            self.notice(WorkerNotice::HeldUp { position });
        }
    }

    /// Lets what is under way finish and be settled within the budget, and gives back the rest.
    async fn drain(&self, handle: Option<B::Durable>, since: Instant) {
        let deadline = since + self.worker.settings.drain;
        drop(self.queue.drain());
        if let Some(handle) = &handle {
            let finishing = async {
                // What waits, and what failed for good, goes back at once.
                self.give_back(handle).await;
                let mut backoff = Backoff::new(self.worker.settings.backoff);
                self.queue.settle_again();
                while let Err(error) = self.settle(handle, || self.queue.has_ended()).await {
                    self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                    if !error.is_transient() || error.kind() == ErrorKind::Absent {
                        break;
                    }
                    self.queue.settle_again();
                    sleep(backoff.wait(self.stream.host().random())).await;
                }
                self.queue.ended().await;
            };
            let mut finishing = pin!(finishing);
            let mut keeping = pin!(async {
                loop {
                    // What can't be kept comes again, which is what happens to it after the stop anyway.
                    self.keep(handle).await;
                }
            });
            let finished = poll_fn(|cx| {
                if finishing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                keeping.as_mut().poll(cx)
            });
            let _ = timeout_at(deadline, finished).await;
        } else {
            let _ = timeout_at(deadline, self.queue.ended()).await;
        }
        self.queue.cancel();
        // One that blocks its thread can't be dropped, so it keeps what it has.
        let _ = timeout(GIVE_BACK, self.queue.ended()).await;
        if let Some(handle) = &handle {
            let giving_back = async {
                self.queue.settle_again();
                let done = self.queue.finished();
                if let Err(error) = self.record(handle, &done, &self.queue.take_again()).await {
                    self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                }
                self.give_back(handle).await;
            };
            let _ = timeout(GIVE_BACK, giving_back).await;
        }
    }

    /// Refuses, without a delay, what isn't under way, isn't handled and wasn't refused. What had its last attempt is told.
    async fn give_back(&self, handle: &B::Durable) {
        handle.release().await;
        let busy: HashSet<_> = self.queue.not_settled().into_iter().collect();
        let most = self.retry.most.load(Ordering::Relaxed);
        let mut back = Vec::new();
        lock(&self.held).retain(|position, held| {
            let goes = !busy.contains(position) && held.again.is_none();
            if goes {
                back.push((held.ticket.clone(), held.attempt));
            }
            !goes
        });
        let refusals = back.iter().map(|(ticket, _)| (ticket.clone(), Verdict::Nak(Duration::ZERO))).collect();
        let refused = self.operate(async { Ok(handle.settle(refusals).await) }).await;
        let failed = match refused {
            Ok(refused) => {
                refused.into_iter().find_map(Result::err).map(|error| self.stream.failed(error, Operation::Work))
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
        }
        for (ticket, _) in back.iter().filter(|(_, attempt)| most != 0 && *attempt >= most) {
            let position = ticket.position;
            telemetry::undelivered(self.stream.declaration(), self.system(), position);
            self.notice(WorkerNotice::Undelivered { position });
        }
    }
}
