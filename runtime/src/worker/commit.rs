//! The worker over a commit group.

mod arrive;
mod settle;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::progress::Progress;
use super::queue::Queue;
use super::shared::{
    CancelledWhenDropped, FIRST_AVERAGE, Halt, Many, One, measured, problems, start_after, start_slots,
};
use super::slot::Handler;
use super::{Worker, WorkerNotice};
use crate::broker::{Tracked, lock};
use crate::capability::{BackendError, CommitGroups, Fetched, GroupMember, Stored};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, HandlerError, Operation};
use crate::stream::{CommitGroup, Delivery, MemberSettings, Stream};
use crate::telemetry;
use crate::topic::{Backoff, Ended, Ends, Interruption, Stop};

/// A read waits at most so long, since one without end couldn't be told from one that hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long it waits for handlers that are dropped.
const GIVE_UP: Duration = Duration::from_secs(1);
/// How long a member may take to leave once everything is done.
const LEAVE: Duration = Duration::from_secs(5);

impl<T, B, S> Worker<T, B, S, CommitGroup<T, B>>
where
    T: StreamSpec + Send + 'static,
    T::Codec: Decode<T>,
    B: CommitGroups,
    S: Clone + Send + Sync + 'static,
{
    /// Runs until it is stopped or dropped, the broker closes, or it can't go on.
    ///
    /// The handler gets a delivery whose value has decoded, and a clone of the state.
    ///
    /// # Errors
    ///
    /// `Callback` or `Panicked` of the gap callback, `Overloaded` when too many keys are paused, or what makes another
    /// attempt pointless: `Invalid` with every setting out of its bounds, `Unsupported`, `Conflict` where the member's
    /// name is another's, `Revoked` where another has taken it since, and `Absent` where the group isn't there at first and
    /// this broker hasn't [ensured](crate::CommitGroup::ensure) it. A server that is out of reach or refuses is tried again
    /// for ever: [`on_notice`](Self::on_notice) tells each attempt.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the handlers under way and leaves the group. What isn't committed comes again. So does closing
    /// the broker; a stop token lets the handlers finish.
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
    /// A batch never waits to fill up. When the handler fails, none of it counts as handled, and each of its keys is
    /// paused. A delivery that doesn't decode is left out.
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
        let mut problems = problems(&self);
        let mut member = MemberSettings::new().hand_over(self.settings.drain.min(Duration::from_mins(5)));
        if !self.name.is_empty() {
            member = member.name(&*self.name);
        }
        problems.extend(member.problems());
        if !problems.is_empty() {
            return Err(self.group.error(ErrorKind::Invalid, Operation::Work).detail(problems.join("; ")));
        }
        let stream = self.group.stream().clone();
        let name = format!("worker of `{}` of `{}`", self.group.name(), stream.declaration());
        let _entry = stream.host().shared().tracker.enter(Tracked::Callback, name);
        let queue = start_slots(&self, &stream, handler, None);
        let _cancelled = CancelledWhenDropped(queue.clone());
        let progress = Mutex::default();
        let average = Mutex::new(FIRST_AVERAGE);
        let looks = Notify::new();
        let run = Run { settings: member, average, looks, progress, worker: self, stream, queue };
        // In a box: what a backend does for it would make the caller's future large.
        Box::pin(run.supervise()).await
    }
}

struct Run<T: StreamSpec, B: CommitGroups, S> {
    worker: Worker<T, B, S, CommitGroup<T, B>>,
    stream: Stream<T, B>,
    queue: Arc<Queue>,
    settings: MemberSettings,
    progress: Mutex<Progress>,
    /// Told when what can be committed or handed over is to be looked at.
    looks: Notify,
    /// Bytes of a record, of late.
    average: Mutex<usize>,
}

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: CommitGroups,
    S: Clone + Send + Sync + 'static,
{
    async fn supervise(&self) -> Result<Ended, Error> {
        let host = self.stream.host();
        let mut ends = Ends::new(host, self.worker.stop.as_ref());
        let mut backoff = Backoff::new(self.worker.settings.backoff);
        let mut interruption: Option<Interruption> = None;
        let (mut vanished, mut was_ready) = (false, false);
        let mut member: Option<B::Member> = None;
        let ended = loop {
            let error = match ends.first(self.go_on(&mut member, vanished)).await {
                Err(ended) => break ended,
                Ok(Err(Halt::Failed(error))) => {
                    self.drain(member, Instant::now()).await;
                    return Err(error);
                }
                Ok(Err(Halt::Interrupted(error))) => error,
                Ok(Ok(())) => {
                    let Some(joined) = &member else { continue };
                    (was_ready, vanished) = (true, false);
                    self.notice(WorkerNotice::Ready);
                    if let Some(interruption) = interruption.take()
                        && let Some(ended) = self.worker.tell_gap(&self.stream, interruption.over(), &mut ends).await?
                    {
                        break ended;
                    }
                    let since = Instant::now();
                    let halt = match ends.first(self.session(joined, self.read_ahead(joined))).await {
                        Err(ended) => break ended,
                        Ok(Ok(never)) => match never {},
                        Ok(Err(Halt::Failed(error))) => {
                            self.drain(member, Instant::now()).await;
                            return Err(error);
                        }
                        Ok(Err(Halt::Interrupted(error))) => error,
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
            if member.is_some() && kind == ErrorKind::Absent {
                member = None;
                self.lost();
                // A stream that is made anew may have other records where these stood.
                self.queue.stream_gone();
                lock(&self.progress).forget();
            }
            // Rights are often granted later. Whoever took this one's name would lose it again, and so on for ever.
            let hopeless = !error.is_transient() && kind != ErrorKind::Forbidden;
            let never_there = kind == ErrorKind::Absent && !was_ready && !self.worker.group.bound.is_ensured();
            if hopeless || never_there {
                self.drain(member, Instant::now()).await;
                return Err(error);
            }
            vanished |= kind == ErrorKind::Absent;
            self.worker.interrupted(&self.stream, &mut interruption, &error, was_ready);
            if let Err(ended) = ends.first(sleep(backoff.wait(host.random()))).await {
                break ended;
            }
        };
        if ended == Ended::Stopped {
            self.drain(member, Instant::now()).await;
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

    /// Joins the group, where this isn't a member, and waits until the group has answered. Meanwhile what was handled is
    /// committed and handed over as ever.
    async fn go_on(&self, member: &mut Option<B::Member>, vanished: bool) -> Result<(), Halt> {
        let member = match member {
            Some(member) => member,
            none => none.insert(self.join(vanished).await.map_err(Halt::Interrupted)?),
        };
        self.session(member, self.arrive(member)).await
    }

    /// Joins the group. One that is gone is recorded anew.
    async fn join(&self, vanished: bool) -> Result<B::Member, Error> {
        let (client, group) = (self.stream.client(), &self.worker.group.bound);
        if vanished && group.is_ensured() {
            let made = self.make_group().await;
            match (made, self.stream.bound.ensured()) {
                (Err(error), Some(settings)) if error.kind() == ErrorKind::Absent => {
                    self.operate(B::ensure(client, &self.stream.bound.address, &settings)).await?;
                    self.make_group().await?;
                }
                (made, _) => drop(made?),
            }
        }
        self.operate(B::join(client, &group.address, &self.settings)).await
    }

    /// Records the group, at the highest position up to which everything is known to be committed.
    async fn make_group(&self) -> Result<bool, Error> {
        let (client, group) = (self.stream.client(), &self.worker.group.bound);
        let known = lock(&self.progress).known();
        let start = start_after(&self.stream, known, group.start()).await?;
        self.operate(B::ensure_commit_group(client, &group.address, &start)).await
    }

    /// The membership is gone, and what waits comes again.
    fn lost(&self) {
        let partitions = lock(&self.progress).partitions();
        self.gone(&partitions);
    }

    fn gone(&self, partitions: &[u32]) {
        self.queue.forget(partitions);
        let here = self.queue.not_settled();
        lock(&self.progress).revoked(partitions, |position| here.contains(&position));
    }

    /// Works until the intake has ended or something goes wrong.
    async fn session<R>(&self, member: &B::Member, intake: impl Future<Output = Result<R, Error>>) -> Result<R, Halt> {
        let mut intake = pin!(intake);
        let mut settling = pin!(async {
            match self.settle(member).await {
                Err(error) => error,
                // The handlers end by a stop as well.
                Ok(()) if self.is_stopped() => std::future::pending().await,
                Ok(()) => self.error(ErrorKind::Panicked).detail("the tasks of the handlers ended"),
            }
        });
        let mut failing = pin!(self.queue.fatal());
        poll_fn(|cx| {
            if let Poll::Ready(error) = failing.as_mut().poll(cx) {
                return Poll::Ready(Err(Halt::Failed(error)));
            }
            if let Poll::Ready(error) = settling.as_mut().poll(cx) {
                return Poll::Ready(Err(Halt::Interrupted(error)));
            }
            intake.as_mut().poll(cx).map_err(Halt::Interrupted)
        })
        .await
    }

    async fn read_ahead(&self, member: &B::Member) -> Result<std::convert::Infallible, Error> {
        loop {
            let max = self.room(member).await?;
            let fetched = self.stream.observe(Operation::Work, member.next(max, LONGEST_WAIT)).await?;
            self.take(member, fetched);
        }
    }

    /// Takes in what the member is told.
    fn take(&self, member: &B::Member, fetched: Fetched) {
        let (declaration, system) = (self.stream.declaration(), self.system());
        match fetched {
            Fetched::Records(records) => self.push(member, records),
            Fetched::Assigned(partitions) => {
                telemetry::assigned(declaration, system, &partitions);
                lock(&self.progress).assign(&partitions);
                self.notice(WorkerNotice::Assigned { partitions: &partitions });
            }
            Fetched::Revoking(partitions) => {
                let begun = {
                    let mut progress = lock(&self.progress);
                    progress.moving(&partitions);
                    progress.begun(&partitions)
                };
                self.queue.forget_rest(&partitions, &begun);
                self.hand_over(member);
                self.looks.notify_one();
            }
            Fetched::Revoked(partitions) => {
                telemetry::revoked(declaration, system, &partitions);
                self.gone(&partitions);
                self.notice(WorkerNotice::Revoked { partitions: &partitions });
            }
            Fetched::Trimmed { after, first } => {
                telemetry::trimmed(declaration, system, after, first, true);
                self.notice(WorkerNotice::Trimmed { after, first, certain: true });
            }
        }
    }

    fn push(&self, member: &B::Member, records: Vec<Stored>) {
        measured(&self.average, &records);
        let most = self.worker.settings.uncommitted;
        let much = {
            let mut progress = lock(&self.progress);
            let new = records.into_iter().filter(|stored| !progress.give(stored.position)).collect();
            self.queue.push(new, false);
            progress.has_much(most)
        };
        if much {
            // What is handled and isn't noted holds nothing up.
            self.note();
            self.looks.notify_one();
        }
        let held_up = lock(&self.progress).hold_up(most);
        // What is behind a delivery that failed waits with it: nobody else has the partition.
        drop(self.queue.take_refused());
        for position in held_up {
            member.pause(&[position.partition()], true);
            self.notice(WorkerNotice::HeldUp { position });
        }
    }

    /// Waits for room, while what else the member is told is taken in, and says for how many records.
    async fn room(&self, member: &B::Member) -> Result<usize, Error> {
        let mut room = pin!(self.worker.wait_for_room(&self.queue));
        let mut paused = Vec::new();
        loop {
            let asks = !paused.is_empty();
            let mut told = pin!(async move {
                if !asks {
                    // Only where it takes a while.
                    sleep(Duration::from_millis(20)).await;
                    return Ok(None);
                }
                self.stream.observe(Operation::Work, member.next(1, LONGEST_WAIT)).await.map(Some)
            });
            let next = poll_fn(|cx| {
                if room.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                told.as_mut().poll(cx).map(Some)
            });
            let Some(fetched) = next.await else { break };
            if let Some(fetched) = fetched? {
                self.take(member, fetched);
            }
            // No records come while it waits, but news of partitions do.
            paused = member.assigned();
            member.pause(&paused, true);
        }
        if !paused.is_empty() {
            self.read_on(member, paused);
        }
        Ok(self.worker.room(&self.queue, &self.average, self.stream.broker().limits().read_records))
    }

    /// Lets what is under way finish and be committed within the budget, and leaves.
    async fn drain(&self, member: Option<B::Member>, since: Instant) {
        let deadline = since + self.worker.settings.drain;
        drop(self.queue.drain());
        if let Some(member) = member {
            let finishing = async {
                let mut backoff = Backoff::new(self.worker.settings.backoff);
                while let Err(error) = self.settle(&member).await {
                    self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                    if !error.is_transient() || error.kind() == ErrorKind::Absent {
                        break;
                    }
                    sleep(backoff.wait(self.stream.host().random())).await;
                }
                // Where no commit helps, the handlers finish all the same.
                self.queue.ended().await;
            };
            let _ = timeout_at(deadline, finishing).await;
            self.give_up().await;
            let leaving = async {
                // What was handled at the last moment.
                let _ = self.settle(&member).await;
                member.leave().await;
            };
            let _ = timeout(LEAVE, leaving).await;
        } else {
            let _ = timeout_at(deadline, self.queue.ended()).await;
            self.give_up().await;
        }
    }

    /// Drops the handlers under way, so that what they had isn't handled here while it is elsewhere.
    async fn give_up(&self) {
        self.queue.cancel();
        // One that blocks its thread can't be dropped.
        let _ = timeout(GIVE_UP, self.queue.ended()).await;
    }
}
