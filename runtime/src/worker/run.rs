use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::queue::Queue;
use super::shared::{
    CancelledWhenDropped, FIRST_AVERAGE, Halt, Many, One, measured, problems, start_after, start_slots,
};
use super::slot::Handler;
use super::{Worker, WorkerNotice};
use crate::broker::{Tracked, lock};
use crate::capability::{AckGroups, BackendError, Read, Stored, Taken};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, HandlerError, Operation};
use crate::stream::{Delivery, Position, Positions, Stream};
use crate::telemetry;
use crate::topic::{Backoff, Ended, Ends, Interruption, Stop};

/// Entries of one page of the worker's own history.
const PAGE: usize = 256;
/// How often it looks up to where everything is acknowledged.
const LOOK: Duration = Duration::from_secs(1);
/// A read waits at most so long, since one without end couldn't be told from one that hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long giving back may take once a stop's budget is over.
const GIVE_BACK: Duration = Duration::from_secs(1);

impl<T, B, S> Worker<T, B, S>
where
    T: StreamSpec + Send + 'static,
    T::Codec: Decode<T>,
    B: AckGroups,
    S: Clone + Send + Sync + 'static,
{
    /// Runs until it is stopped or dropped, the broker closes, or it can't go on.
    ///
    /// The handler gets a delivery whose value has decoded, and a clone of the state. When it returns `Ok`, the entry is
    /// acknowledged, together with what else is done by then.
    ///
    /// # Errors
    ///
    /// `Callback` or `Panicked` of the gap callback, `Overloaded` when too many keys are paused, or what makes another
    /// attempt pointless: `Invalid` with every setting out of its bounds, `Unsupported`, and `Absent` where the group
    /// isn't there at first and this broker hasn't [ensured](crate::AckGroup::ensure) it. A server that is out of reach
    /// or refuses is tried again for ever: [`on_notice`](Self::on_notice) tells each attempt.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the handlers under way. What was delivered to it stays pending: it is claimed once it is idle, or
    /// found again by a worker of the same name. So does closing the broker; a stop token lets the handlers finish.
    pub async fn run<H, Handling>(self, handler: H) -> Result<Ended, Error>
    where
        H: Fn(Delivery<T>, S) -> Handling + Send + Sync + 'static,
        Handling: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let state = self.state.clone();
        self.drive(One { handler, state }).await
    }

    /// Runs with a handler of batches: whatever waits, at least one and at most `max` deliveries, in order within a key.
    ///
    /// A batch never waits to fill up. It is acknowledged as a whole when the handler returns `Ok`; when it fails, all
    /// of it stays unsettled, and each of its keys is paused. A delivery that doesn't decode is left out.
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
        self.group.check_consumer(&self.name)?;
        let stream = self.group.stream().clone();
        let shared = stream.host().shared().clone();
        let name = format!("worker `{}` of `{}` of `{}`", self.name, self.group.name(), stream.declaration());
        let _entry = shared.tracker.enter(Tracked::Callback, name);
        let queue = start_slots(&self, &stream, handler, None);
        let _cancelled = CancelledWhenDropped(queue.clone());
        let run = Run {
            average: Mutex::new(FIRST_AVERAGE),
            settled: Mutex::default(),
            progress: AtomicBool::new(true),
            redelivering: AtomicBool::new(false),
            worker: self,
            stream,
            queue,
        };
        // In a box: what a backend does for it would make the caller's future large.
        Box::pin(run.supervise()).await
    }
}

struct Run<T: StreamSpec, B: AckGroups, S> {
    worker: Worker<T, B, S>,
    stream: Stream<T, B>,
    queue: Arc<Queue>,
    /// Bytes of a record, of late.
    average: Mutex<usize>,
    /// Up to where everything was acknowledged when it was last looked up.
    settled: Mutex<Positions>,
    /// Whether something was acknowledged since.
    progress: AtomicBool,
    /// Whether entries are asked for that were delivered before.
    redelivering: AtomicBool,
}

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: AckGroups,
    S: Clone + Send + Sync + 'static,
{
    async fn supervise(&self) -> Result<Ended, Error> {
        let host = self.stream.host();
        let mut ends = Ends::new(host, self.worker.stop.as_ref());
        let mut backoff = Backoff::new(self.worker.settings.backoff);
        let mut interruption: Option<Interruption> = None;
        let mut vanished = false;
        let mut was_ready = false;
        let mut stopped_at = None;
        let ended = loop {
            let mut going_on = pin!(self.go_on(vanished));
            let error = match ends.first(going_on.as_mut()).await {
                Err(ended) => {
                    stopped_at = Some(Instant::now());
                    if ended == Ended::Stopped
                        && let Some(Ok(page)) = self.redelivery(going_on, &mut ends).await
                    {
                        self.redelivered(page);
                    }
                    break ended;
                }
                Ok(Err(error)) => error,
                Ok(Ok(first)) => {
                    was_ready = true;
                    vanished = false;
                    self.notice(WorkerNotice::Ready);
                    if let Some(interruption) = interruption.take()
                        && let Some(ended) = self.worker.tell_gap(&self.stream, interruption.over(), &mut ends).await?
                    {
                        break ended;
                    }
                    let since = Instant::now();
                    // Taken in before a stop can be seen, which gives it back then.
                    let last = self.redelivered(first);
                    let mut session = pin!(self.session(last));
                    let halt = match ends.first(session.as_mut()).await {
                        Err(ended) => {
                            stopped_at = Some(Instant::now());
                            if ended == Ended::Stopped {
                                self.redelivery(session, &mut ends).await;
                            }
                            break ended;
                        }
                        Ok(Halt::Failed(error)) => {
                            self.drain(Instant::now()).await;
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
            // Rights are often granted later, and a service that waits for them needs no restart.
            let hopeless = !error.is_transient() && kind != ErrorKind::Forbidden;
            let never_there = kind == ErrorKind::Absent && !was_ready && !self.worker.group.bound.is_ensured();
            if hopeless || never_there {
                return Err(error);
            }
            if kind == ErrorKind::Absent && !vanished {
                vanished = true;
                self.queue.vanished();
            }
            self.worker.interrupted(&self.stream, &mut interruption, &error, was_ready);
            self.queue.settle_again();
            if let Err(ended) = ends.first(sleep(backoff.wait(host.random()))).await {
                break ended;
            }
        };
        if ended == Ended::Stopped {
            self.drain(stopped_at.unwrap_or_else(Instant::now)).await;
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

    /// Makes the group anew where it is gone, and reads the first page of what is pending for this worker.
    async fn go_on(&self, vanished: bool) -> Result<Taken, Error> {
        if vanished {
            self.make_anew().await?;
        }
        self.history(None).await
    }

    async fn history(&self, after: Option<Position>) -> Result<Taken, Error> {
        let group = &self.worker.group.bound.address;
        self.again(B::history(self.stream.client(), group, &self.worker.name, after, self.page())).await
    }

    /// Asks for entries that were delivered before. It counts their delivery, so a stop waits for the answer.
    async fn again(&self, asking: impl Future<Output = Result<Taken, BackendError>> + Send) -> Result<Taken, Error> {
        self.queue.asking_again();
        self.redelivering.store(true, Ordering::Release);
        let taken = self.operate(asking).await;
        self.redelivering.store(false, Ordering::Release);
        taken
    }

    /// Goes on with a step that was stopped while it asks so.
    async fn redelivery<R>(&self, mut step: Pin<&mut impl Future<Output = R>>, ends: &mut Ends<'_>) -> Option<R> {
        let ended = poll_fn(|cx| {
            if !self.redelivering.load(Ordering::Acquire) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(done) = step.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if self.redelivering.load(Ordering::Acquire) { Poll::Pending } else { Poll::Ready(None) }
        });
        ends.unless_closed(timeout(self.worker.settings.drain, ended)).await?.ok().flatten()
    }

    fn is_stopped(&self) -> bool {
        self.worker.stop.as_ref().is_some_and(Stop::is_stopped)
    }

    fn page(&self) -> usize {
        PAGE.min(self.stream.broker().limits().read_records)
    }

    async fn make_anew(&self) -> Result<(), Error> {
        let group = &self.worker.group;
        let made = match self.make_group().await {
            Err(error) if error.kind() == ErrorKind::Absent => match self.stream.bound.ensured() {
                Some(settings) => {
                    let address = &self.stream.bound.address;
                    self.operate(B::ensure(self.stream.client(), address, &settings)).await?;
                    self.make_group().await
                }
                None => Err(error.detail(format!(
                    "the stream of the group `{}` is gone; whoever owns it has to ensure it again",
                    group.name()
                ))),
            },
            made => made,
        };
        made.map(drop)
    }

    /// Makes the group, at the highest position up to which everything is known to be acknowledged.
    async fn make_group(&self) -> Result<bool, Error> {
        let settled = lock(&self.settled).clone();
        let start = start_after(&self.stream, settled, self.worker.group.bound.start()).await?;
        self.worker.group.ensure_at(&start, Operation::Work).await
    }

    /// Works until something goes wrong.
    async fn session(&self, last: Option<Position>) -> Halt {
        let mut intake = pin!(self.intake(last));
        let mut settling = pin!(self.settle());
        let mut keeping = pin!(self.keep());
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

    /// Reads ahead: first what is pending for this worker, then what is new, and at times what others left idle.
    async fn intake(&self, last: Option<Position>) -> Error {
        match self.read_ahead(last).await {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }

    async fn read_ahead(&self, last: Option<Position>) -> Result<std::convert::Infallible, Error> {
        let mut history = last;
        while let Some(last) = history {
            if self.is_stopped() {
                return std::future::pending().await;
            }
            self.give_back_refused().await?;
            self.room().await;
            history = self.redelivered(self.history(Some(last)).await?);
        }
        self.give_back_refused().await?;
        let (client, group) = (self.stream.client(), &self.worker.group.bound.address);
        let idle = self.worker.settings.claim_after;
        // Spread, so that workers that start together don't claim together, and uneven, so that of several it isn't
        // always the same that is first to claim an entry.
        let share = |of: Duration| of * u32::try_from(self.stream.host().random() % 256).unwrap_or_default() / 256;
        let mut claim_at = Instant::now() + share(idle / 2);
        loop {
            let max = self.room().await;
            let now = Instant::now();
            if now >= claim_at {
                let claimed = self.again(B::claim(client, group, &self.worker.name, idle, max)).await?;
                let is_full = claimed.records.len() + claimed.lost.len() >= max;
                let taken = claimed.records.iter().filter(|stored| !self.queue.is_paused(stored));
                let mut positions: Vec<_> = taken.map(|stored| stored.position).collect();
                // Before a handler can have them.
                if !positions.is_empty() {
                    self.notice(WorkerNotice::Claimed { positions: &positions });
                }
                self.redelivered(claimed);
                let refused = self.give_back_refused().await?;
                positions.retain(|position| !refused.contains(position));
                // What was given back can be claimed at once, which would go on for ever.
                let is_full = is_full && !positions.is_empty();
                if self.is_stopped() {
                    return std::future::pending().await;
                }
                claim_at = if is_full { now } else { now + idle / 4 + share(idle / 4) };
                if is_full {
                    continue;
                }
            }
            let wait = claim_at.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
            let reading = B::read_new(client, group, &self.worker.name, max, wait.max(Duration::from_millis(1)));
            match self.operate(reading).await? {
                Read::Records(records) => {
                    self.measure(&records);
                    self.queue.push(records, false);
                }
                Read::Trimmed { first, certain } => {
                    telemetry::trimmed(self.stream.declaration(), self.system(), None, first, certain);
                    self.notice(WorkerNotice::Trimmed { after: None, first, certain });
                }
            }
            self.give_back_refused().await?;
        }
    }

    /// Gives back what nothing here will handle, since its key is paused: another worker may be able to.
    async fn give_back_refused(&self) -> Result<HashSet<Position>, Error> {
        let refused = self.queue.take_refused();
        for part in refused.chunks(self.page()) {
            let (client, group) = (self.stream.client(), &self.worker.group.bound.address);
            self.operate(B::release(client, group, &self.worker.name, part)).await?;
        }
        Ok(refused.into_iter().collect())
    }

    /// Takes a page of redelivered entries in, and returns the last; `None` of an empty page.
    fn redelivered(&self, page: Taken) -> Option<Position> {
        let Taken { records, lost } = page;
        let seen = records.iter().map(|stored| stored.position).chain(lost.iter().copied());
        let last = seen.max_by_key(|position| (position.partition(), position.offset()));
        if !lost.is_empty() {
            telemetry::lost(self.stream.declaration(), self.system(), lost.len());
            self.notice(WorkerNotice::Lost { positions: &lost });
        }
        self.measure(&records);
        self.queue.push(records, true);
        last
    }

    /// Waits for room, and says for how many records.
    async fn room(&self) -> usize {
        self.worker.wait_for_room(&self.queue).await;
        self.worker.room(&self.queue, &self.average, self.stream.broker().limits().read_records)
    }

    fn measure(&self, records: &[Stored]) {
        measured(&self.average, records);
    }

    /// Acknowledges what was handled, all that there is each time.
    async fn settle(&self) -> Error {
        let most = self.stream.broker().limits().batch_messages;
        loop {
            let positions = self.queue.to_settle(most).await;
            if positions.is_empty() {
                // The handlers end by a stop as well, which waits for entries that are just being claimed.
                if self.is_stopped() {
                    return std::future::pending().await;
                }
                return self.error(ErrorKind::Panicked).detail("the tasks of the handlers ended");
            }
            if let Err(error) = self.acknowledge(&positions).await {
                return error;
            }
        }
    }

    async fn acknowledge(&self, positions: &[Position]) -> Result<(), Error> {
        self.operate(B::ack(self.stream.client(), &self.worker.group.bound.address, positions)).await?;
        self.queue.settled();
        self.progress.store(true, Ordering::Release);
        Ok(())
    }

    /// Keeps what is here from being claimed, and looks up to where everything is acknowledged.
    async fn keep(&self) -> Error {
        let third = self.worker.settings.claim_after / 3;
        let mut extended = Instant::now();
        loop {
            sleep(third.min(LOOK)).await;
            let kept = async {
                if extended.elapsed() >= third {
                    extended = Instant::now();
                    self.extend().await?;
                }
                self.look().await
            };
            if let Err(error) = kept.await {
                return error;
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        if self.progress.swap(false, Ordering::AcqRel) {
            let settled = self.operate(B::settled(self.stream.client(), &self.worker.group.bound.address)).await?;
            *lock(&self.settled) = settled;
        }
        Ok(())
    }

    async fn extend(&self) -> Result<(), Error> {
        let held = self.queue.held();
        for part in held.chunks(self.page()) {
            let extending = B::extend(self.stream.client(), &self.worker.group.bound.address, &self.worker.name, part);
            let kept: HashSet<_> = self.operate(extending).await?.into_iter().collect();
            if kept.len() == part.len() {
                continue;
            }
            let lost = part.iter().copied().filter(|position| !kept.contains(position)).collect();
            let taken_over = self.queue.lose(&lost);
            if !taken_over.is_empty() {
                self.notice(WorkerNotice::TakenOver { positions: &taken_over });
            }
        }
        Ok(())
    }

    /// Lets what is under way finish and be settled within the budget, and gives back the rest.
    async fn drain(&self, since: Instant) {
        let deadline = since + self.worker.settings.drain;
        let waited = self.queue.drain();
        let giving_back = self.give_back(waited);
        let settling = async {
            let most = self.stream.broker().limits().batch_messages;
            let mut backoff = Backoff::new(self.worker.settings.backoff);
            self.queue.settle_again();
            loop {
                let positions = self.queue.to_settle(most).await;
                if positions.is_empty() {
                    return;
                }
                let Err(error) = self.acknowledge(&positions).await else { continue };
                self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                if !error.is_transient() || error.kind() == ErrorKind::Absent {
                    // No further attempt helps. The handlers under way finish all the same.
                    self.queue.settled();
                    continue;
                }
                self.queue.settle_again();
                sleep(backoff.wait(self.stream.host().random())).await;
            }
        };
        let mut keeping = pin!(async {
            loop {
                // What can't be kept may be claimed, which is what happens to it after the stop anyway.
                self.keep().await;
            }
        });
        let (mut giving_back, mut settling) = (pin!(giving_back), pin!(settling));
        let (mut given_back, mut settled) = (false, false);
        let drained = poll_fn(|cx| {
            given_back = given_back || giving_back.as_mut().poll(cx).is_ready();
            settled = settled || settling.as_mut().poll(cx).is_ready();
            if given_back && settled {
                return Poll::Ready(());
            }
            keeping.as_mut().poll(cx)
        });
        if timeout_at(deadline, drained).await.is_err() {
            self.give_up().await;
        }
    }

    /// Drops the handlers under way and gives back what they had, once they are gone.
    async fn give_up(&self) {
        let dropped = self.queue.under_way();
        self.queue.cancel();
        // One that blocks its thread can't be dropped, so it keeps what it has.
        let _ = timeout(GIVE_BACK, self.queue.ended()).await;
        let kept: HashSet<_> = self.queue.under_way().into_iter().collect();
        // Best effort: what isn't given back is claimed once it is idle.
        let giving_up = async {
            self.queue.settle_again();
            let finished: HashSet<_> = self.queue.finished().into_iter().collect();
            let positions = dropped.into_iter().filter(|one| !kept.contains(one) && !finished.contains(one)).collect();
            self.give_back(positions).await;
            let finished: Vec<_> = finished.into_iter().collect();
            for part in finished.chunks(self.stream.broker().limits().batch_messages) {
                if let Err(error) = self.acknowledge(part).await {
                    self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                    return;
                }
            }
        };
        let _ = timeout(GIVE_BACK, giving_up).await;
    }

    async fn give_back(&self, positions: Vec<Position>) {
        for part in positions.chunks(self.page()) {
            let releasing = B::release(self.stream.client(), &self.worker.group.bound.address, &self.worker.name, part);
            if let Err(error) = self.operate(releasing).await {
                self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                return;
            }
        }
    }
}
