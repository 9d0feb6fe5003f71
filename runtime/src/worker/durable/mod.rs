//! The worker over a durable.

mod drain;
mod intake;
mod settle;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::queue::Queue;
use super::shared::{CancelledWhenDropped, FIRST_AVERAGE, Halt, Many, One, problems, start_after, start_slots};
use super::slot::{Handler, Retry};
use super::{Worker, WorkerNotice};
use crate::broker::{Tracked, lock};
use crate::capability::{BackendError, BoundDurable as _, Cursors, Pulled, Ticket};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, HandlerError, Operation};
use crate::stream::{Delivery, Durable, DurableSettings, Position, Positions, Start, Stream};
use crate::telemetry;
use crate::topic::{Backoff, Ended, Ends, Interruption, Stop, SupervisePolicy};

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
            settled: Mutex::new((Positions::new(), SystemTime::UNIX_EPOCH)),
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
    /// Up to where everything was settled when it was last looked up, and when that was.
    settled: Mutex<(Positions, SystemTime)>,
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
    /// Whether the server has forgotten that it is here, and hands it out again.
    forgotten: bool,
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
                Ok(Ok(first)) => {
                    let Some(bound) = &handle else { continue };
                    (was_ready, vanished) = (true, false);
                    self.notice(WorkerNotice::Ready);
                    if let Some(interruption) = interruption.take()
                        && let Some(ended) = self.worker.tell_gap(&self.stream, interruption.over(), &mut ends).await?
                    {
                        break ended;
                    }
                    self.take(first);
                    let since = Instant::now();
                    let halt = match ends.first(self.session(bound)).await {
                        Err(ended) => break ended,
                        Ok(None) => {
                            self.queue.settle_again();
                            // The ack wait may be shorter now, and the durable may be another.
                            match ends.unless_closed(self.extend(bound, Duration::ZERO)).await {
                                Some(Err(error)) => error,
                                Some(Ok(())) if ends.unless_closed(self.let_go_of(handle.take())).await.is_some() => {
                                    continue;
                                }
                                _ => break Ended::Closed,
                            }
                        }
                        Ok(Some(Halt::Failed(error))) => {
                            self.drain(handle, Instant::now()).await;
                            return Err(error);
                        }
                        Ok(Some(Halt::Interrupted(error))) => error,
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
                self.lost();
                // What came of one that was made anew meanwhile goes back.
                if ends.unless_closed(self.let_go_of(handle.take())).await.is_none() {
                    break Ended::Closed;
                }
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

    /// Binds the durable, which is made anew where it is gone, and looks whether it hands out enough. Returns what it handed
    /// out already.
    async fn go_on(&self, handle: &mut Option<B::Durable>, vanished: bool) -> Result<Vec<Pulled>, Error> {
        let durable = &self.worker.group;
        if vanished && let Some(settings) = durable.bound.durable() {
            match (self.make_durable(&settings).await, self.stream.bound.ensured()) {
                (Err(error), Some(stream)) if error.kind() == ErrorKind::Absent => {
                    let address = &self.stream.bound.address;
                    self.operate(B::ensure(self.stream.client(), address, &stream)).await?;
                    self.make_durable(&settings).await?;
                }
                // Another has made it anew with other settings, which hold from now on.
                (Err(error), _) if error.kind() == ErrorKind::Conflict => {}
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
        let first = match handle {
            // What it has asked for may have been lost with the connection, which it tells now and not after the gap. That is
            // known already.
            Some(handle) => match self.operate(handle.pull(1, Duration::ZERO)).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    self.operate(handle.pull(1, Duration::ZERO)).await?
                }
                pulled => pulled?,
            },
            none => {
                *none = Some(durable.bind(Operation::Work).await?);
                Vec::new()
            }
        };
        // What came back meanwhile is still on its way.
        let expected = Instant::now();
        for held in lock(&self.held).values_mut() {
            held.again = held.again.map(|again| again.max(expected));
        }
        Ok(first)
    }

    /// Gives back what a handle has of which nothing is known here.
    async fn let_go_of(&self, handle: Option<B::Durable>) {
        if let Some(handle) = handle {
            handle.release().await;
        }
    }

    /// Makes the durable, after the highest position up to which everything is known to be settled.
    async fn make_durable(&self, settings: &DurableSettings) -> Result<bool, Error> {
        let (client, bound) = (self.stream.client(), &self.worker.group.bound);
        let start = start_after(&self.stream, self.known().await?, bound.start()).await?;
        self.operate(B::ensure_durable(client, &bound.address, &settings.clone().start(start))).await
    }

    /// Up to where everything is known to be settled of the stream that is there now. In one that was made anew, records
    /// may stand at these positions that nobody has seen; but they were all appended later.
    async fn known(&self) -> Result<Positions, Error> {
        let (known, looked_up) = lock(&self.settled).clone();
        if known.is_empty() {
            return Ok(known);
        }
        let start = Start::At(looked_up);
        let before = self.operate(B::start(self.stream.client(), &self.stream.bound.address, &start)).await?;
        let lower = |at: Position| {
            let offset = before.get(at.partition()).map_or(0, Position::offset);
            Position::new(at.partition(), at.offset().min(offset))
        };
        Ok(known.iter().map(lower).collect())
    }

    /// The durable is gone, and what it handed out with it. All of that comes again, or other records do in its place.
    fn lost(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        let under_way = self.queue.under_way();
        let keys = under_way.iter().filter_map(|position| held.get(position)?.key.clone()).collect();
        self.queue.lost(&keys);
    }

    /// Works until something goes wrong, or the durable's settings change.
    async fn session(&self, handle: &B::Durable) -> Option<Halt> {
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
                return Poll::Ready(Some(Halt::Failed(error)));
            }
            if let Poll::Ready(error) = settling.as_mut().poll(cx) {
                return Poll::Ready(Some(Halt::Interrupted(error)));
            }
            if let Poll::Ready(error) = intake.as_mut().poll(cx) {
                return Poll::Ready(Some(Halt::Interrupted(error)));
            }
            keeping.as_mut().poll(cx).map(|error| error.map(Halt::Interrupted))
        })
        .await
    }
}
