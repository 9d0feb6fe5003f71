//! What the loops over ack groups and over commit groups share.

use std::future::Future;
use std::sync::{Arc, Mutex};

use super::queue::Queue;
use super::slot::{Handler, Retry, Slot};
use super::{Worker, WorkerNotice};
use crate::broker::{caught, lock};
use crate::capability::{Backend, Log, Stored};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Cause, Error, ErrorKind, HandlerError, Operation};
use crate::stream::{Delivery, Position, Positions, Start, Stream};
use crate::telemetry;
use crate::topic::{Ended, Ends, Gap, Interruption, words};

/// What is wrong with a worker's settings.
pub(super) fn problems<T: StreamSpec, B: Backend, S, G>(worker: &Worker<T, B, S, G>) -> Vec<String> {
    let mut problems = worker.settings.problems();
    if worker.gap_dropped {
        problems
            .push("`with` was called after `on_gap`, whose callback is gone with the state; call it before".to_owned());
    }
    problems
}

/// Starts the tasks that handle what is put into the queue.
///
/// With a `retry` what failed keeps its key until it comes again.
pub(super) fn start_slots<T, B, S, G, H>(
    worker: &Worker<T, B, S, G>,
    stream: &Stream<T, B>,
    handler: H,
    retry: Option<&Arc<Retry>>,
) -> Arc<Queue>
where
    T: StreamSpec + Send + 'static,
    T::Codec: Decode<T>,
    B: Backend,
    H: Handler<T>,
{
    let settings = &worker.settings;
    let make = if retry.is_some() { Queue::holding } else { Queue::new };
    let queue = Arc::new(make(settings.concurrency, settings.read_ahead, worker.stop.clone()));
    let handler = Arc::new(handler);
    for index in 0..settings.concurrency {
        let slot = Slot {
            stream: stream.clone(),
            queue: queue.clone(),
            handler: handler.clone(),
            notice: worker.notice.clone(),
            deadline: settings.deadline,
            paused_keys: settings.paused_keys,
            retry: retry.cloned(),
            index,
        };
        stream.host().spawn("worker's handler", stream.host().shared().inside(slot.run()));
    }
    queue
}

pub(super) struct CancelledWhenDropped(pub(super) Arc<Queue>);

impl Drop for CancelledWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(super) struct One<H, S> {
    pub(super) handler: H,
    pub(super) state: S,
}

impl<T, S, H, Handling> Handler<T> for One<H, S>
where
    T: StreamSpec,
    S: Clone + Send + Sync + 'static,
    H: Fn(Delivery<T>, S) -> Handling + Send + Sync + 'static,
    Handling: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    type Handling = Handling;

    fn most(&self) -> usize {
        1
    }

    fn handle(&self, deliveries: &mut Vec<Delivery<T>>) -> Handling {
        let delivery = deliveries.pop().expect("a handler is called with a delivery");
        (self.handler)(delivery, self.state.clone())
    }
}

pub(super) struct Many<H, S> {
    pub(super) handler: H,
    pub(super) state: S,
    pub(super) max: usize,
}

impl<H, S> Many<H, S> {
    pub(super) fn problem(&self) -> Option<String> {
        let max = self.max;
        (!(1..=65_536).contains(&max)).then(|| format!("batches of {max}; give 1 to 65536"))
    }
}

impl<T, S, H, Handling> Handler<T> for Many<H, S>
where
    T: StreamSpec,
    S: Clone + Send + Sync + 'static,
    H: Fn(Vec<Delivery<T>>, S) -> Handling + Send + Sync + 'static,
    Handling: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    type Handling = Handling;

    fn most(&self) -> usize {
        self.max
    }

    fn handle(&self, deliveries: &mut Vec<Delivery<T>>) -> Handling {
        (self.handler)(std::mem::take(deliveries), self.state.clone())
    }
}

/// What a record is taken to have before any was read.
pub(super) const FIRST_AVERAGE: usize = 8 << 10;

/// Learns how many bytes a record has.
pub(super) fn measured(average: &Mutex<usize>, records: &[Stored]) {
    if !records.is_empty() {
        let bytes: usize = records.iter().map(|stored| stored.record.data.len()).sum();
        let mut average = lock(average);
        *average = usize::midpoint(*average, bytes / records.len());
    }
}

/// Why a session isn't continued.
pub(super) enum Halt {
    Interrupted(Error),
    Failed(Error),
}

impl<T: StreamSpec, B: Backend, S, G> Worker<T, B, S, G> {
    pub(super) fn tell(&self, notice: WorkerNotice<'_>) {
        if let Some(notified) = &self.notice {
            notified(notice);
        }
    }

    /// Tells of a gap, and says whether the broker closed meanwhile.
    pub(super) async fn tell_gap(
        &self,
        stream: &Stream<T, B>,
        gap: Gap,
        ends: &mut Ends<'_>,
    ) -> Result<Option<Ended>, Error>
    where
        S: Clone,
    {
        telemetry::gap(stream.declaration(), stream.broker().inner.system, &gap);
        self.tell(WorkerNotice::Gap(&gap));
        let Some(callback) = &self.gap else { return Ok(None) };
        let calling = caught(async { callback(gap, self.state.clone()).await });
        let error = |kind| stream.error(kind, Operation::Work);
        match ends.unless_closed(stream.host().shared().inside(calling)).await {
            None => Ok(Some(Ended::Closed)),
            Some(Ok(Ok(()))) => Ok(None),
            Some(Ok(Err(failed))) => Err(error(ErrorKind::Callback).source_of(failed.into_inner())),
            Some(Err(panic)) => Err(error(ErrorKind::Panicked).detail(words(&*panic))),
        }
    }

    /// Notes that something went wrong, after which it tries to go on.
    pub(super) fn interrupted(
        &self,
        stream: &Stream<T, B>,
        interruption: &mut Option<Interruption>,
        error: &Error,
        was_ready: bool,
    ) {
        let is_absent = error.kind() == ErrorKind::Absent;
        let cause = if is_absent { Cause::Vanished } else { Cause::Disconnected };
        let attempts = match interruption {
            Some(interruption) => {
                interruption.attempts = interruption.attempts.saturating_add(1);
                if is_absent {
                    interruption.cause = cause;
                }
                self.tell(WorkerNotice::Failed { error, attempts: interruption.attempts });
                interruption.attempts
            }
            none => {
                let begun = none.insert(Interruption::new(cause, error));
                if !was_ready {
                    begun.attempts = 1;
                    self.tell(WorkerNotice::Failed { error, attempts: 1 });
                }
                begun.attempts
            }
        };
        telemetry::work_interrupted(stream.declaration(), stream.broker().inner.system, error, attempts);
    }

    /// Waits until few enough records wait for a handler that more should be read.
    pub(super) async fn wait_for_room(&self, queue: &Queue) {
        let settings = &self.settings;
        queue.room(|records, bytes| records <= settings.read_ahead / 2 && bytes <= settings.read_ahead_bytes / 2).await;
    }

    /// Says for how many records there is room, by what one has had on average.
    pub(super) fn room(&self, queue: &Queue, average: &Mutex<usize>, most: usize) -> usize {
        let (records, bytes) = queue.waiting();
        let by_bytes = self.settings.read_ahead_bytes.saturating_sub(bytes) / (*lock(average)).max(1);
        let most = self.settings.read_ahead.saturating_sub(records).min(most);
        by_bytes.clamp(1, most.max(1))
    }
}

/// Where a group that is made anew begins: after what is known to be settled, otherwise at this start.
pub(super) async fn start_after<T: StreamSpec, B: Log>(
    stream: &Stream<T, B>,
    mut known: Positions,
    otherwise: Start,
) -> Result<Start, Error> {
    if known.is_empty() {
        return Ok(otherwise);
    }
    // A stream that was made anew, by a clock that went back perhaps, may not have got there yet. Never at the end.
    let latest = B::start(stream.client(), &stream.bound.address, &Start::Latest);
    let latest = stream.operate(Operation::Work, latest).await?;
    let beyond = |at: &Position| latest.get(at.partition()).is_none_or(|latest| latest.offset() < at.offset());
    let beyond: Vec<_> = known.iter().filter(beyond).collect();
    for position in beyond {
        known.remove(position.partition());
    }
    Ok(if known.is_empty() { Start::Earliest } else { Start::After(known) })
}
