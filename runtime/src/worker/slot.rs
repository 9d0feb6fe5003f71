use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

use super::queue::{Fate, Queue};
use super::{Notified, WorkerNotice};
use crate::broker::caught;
use crate::capability::{Backend, Record, Stored};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, HandlerError, Operation};
use crate::stream::{Delivery, Stream};
use crate::telemetry;
use crate::topic::{Backoff, SupervisePolicy, words};

/// A handler of single deliveries or of batches.
pub(super) trait Handler<T: StreamSpec>: Send + Sync + 'static {
    type Handling: Future<Output = Result<(), HandlerError>> + Send + 'static;

    /// How many deliveries one call takes at most.
    fn most(&self) -> usize;

    /// Starts a call with all of the deliveries, which are at least one.
    fn handle(&self, deliveries: &mut Vec<Delivery<T>>) -> Self::Handling;
}

/// One of the handlers that run at once.
pub(super) struct Slot<T: StreamSpec, B: Backend, H> {
    pub(super) stream: Stream<T, B>,
    pub(super) queue: Arc<Queue>,
    pub(super) handler: Arc<H>,
    pub(super) notice: Option<Notified>,
    pub(super) deadline: Duration,
    pub(super) paused_keys: usize,
    /// How what failed comes again, where it does.
    pub(super) retry: Option<Arc<Retry>>,
    pub(super) index: usize,
}

/// When a delivery that failed comes again.
pub(super) struct Retry {
    pub(super) policy: SupervisePolicy,
    /// How often the server hands one out; 0 for ever.
    pub(super) most: AtomicU32,
}

impl Retry {
    /// How long after this attempt the next one is; `None` where it was the last.
    fn after(&self, attempt: u32, random: u64) -> Option<Duration> {
        let most = self.most.load(Ordering::Relaxed);
        if most != 0 && attempt >= most {
            return None;
        }
        let mut backoff = Backoff::new(self.policy);
        // Beyond that many it has long reached its bound.
        for _ in 1..attempt.min(64) {
            backoff.wait(random);
        }
        Some(backoff.wait(random))
    }
}

/// What is said of a record once it is handled: everything but its content.
fn outline(stored: &Stored) -> Stored {
    let Stored { position, attempt, record } = stored;
    let key = record.key.clone();
    let record = Record { key, ..Record::new(record.origin.clone(), Bytes::new()) };
    Stored { position: *position, attempt: *attempt, record }
}

impl<T, B, H> Slot<T, B, H>
where
    T: StreamSpec + Send + 'static,
    T::Codec: Decode<T>,
    B: Backend,
    H: Handler<T>,
{
    /// Handles one delivery, or batch, after another until there is nothing more to take or the broker closes.
    pub(super) async fn run(self) {
        // Told also when the task is dropped, with its runtime.
        let _ended = Ended(&self.queue);
        // The handler's panics are its deliveries'; this is for a notice's, and for a future's that is dropped.
        let serving = async {
            if let Err(panic) = caught(self.serve()).await {
                self.queue.fail(self.error(ErrorKind::Panicked).detail(words(&*panic)));
            }
        };
        let mut serving = pin!(serving);
        let mut closing = pin!(self.stream.host().closing());
        poll_fn(|cx| {
            if serving.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            closing.as_mut().poll(cx)
        })
        .await;
    }

    async fn serve(&self) {
        let most = self.handler.most();
        let mut taken = Vec::new();
        let mut fates = Vec::new();
        let mut deliveries = Vec::new();
        while self.queue.next(self.index, most, &mut taken, &mut fates).await {
            // A loop of handlers that are ready at once must let others run.
            tokio::task::coop::consume_budget().await;
            self.decode(&mut taken, &mut fates, &mut deliveries).await;
            if deliveries.is_empty() {
                continue;
            }
            let Some(failed) = self.call(&mut deliveries).await else {
                // Cancelled.
                fates.fill(Fate::Unsettled);
                continue;
            };
            if let Err(error) = failed {
                for (stored, fate) in taken.iter().zip(&mut fates) {
                    if *fate == Fate::Handled {
                        *fate = self.failed(stored, &error);
                    }
                }
            }
        }
    }

    /// Decodes what was taken, of which the rest stays; what doesn't decode isn't handled, nor what is behind it of its key.
    async fn decode(&self, taken: &mut [Stored], fates: &mut Vec<Fate>, deliveries: &mut Vec<Delivery<T>>) {
        fates.clear();
        let several = taken.len() > 1;
        for stored in taken {
            let behind = several && self.queue.is_paused(stored);
            let decoded = if behind {
                None
            } else {
                let rest = outline(stored);
                let whole = std::mem::replace(stored, rest);
                // Decoding runs the payload's own code.
                Some(caught(async { Delivery::decode(whole) }).await)
            };
            let delivery = match decoded {
                None => None,
                Some(Err(panic)) => {
                    self.unsettled(stored, &self.error(ErrorKind::Panicked).detail(words(&*panic)));
                    None
                }
                Some(Ok(delivery)) => match delivery.value() {
                    Ok(_) => Some(delivery),
                    Err(poison) => {
                        self.unsettled(stored, &self.error(ErrorKind::Malformed).source_of(poison));
                        None
                    }
                },
            };
            fates.push(if delivery.is_some() { Fate::Handled } else { Fate::Unsettled });
            deliveries.extend(delivery);
        }
    }

    /// Runs the handler. `None` when it was cancelled.
    async fn call(&self, deliveries: &mut Vec<Delivery<T>>) -> Option<Result<(), Error>> {
        let calling = caught(async { self.handler.handle(deliveries).await });
        let (declaration, system) = (self.stream.declaration(), self.stream.broker().inner.system);
        let mut calling = pin!(telemetry::process(declaration, system, calling));
        let mut cancelling = pin!(self.queue.cancelling());
        let mut late = None;
        let done = poll_fn(|cx| {
            if let Poll::Ready(done) = calling.as_mut().poll(cx) {
                return Poll::Ready(Some(Some(done)));
            }
            // What is ready at once pays for neither.
            if cancelling.as_mut().poll(cx).is_ready() || self.queue.is_cancelled() {
                return Poll::Ready(None);
            }
            let late = late.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.deadline)));
            late.as_mut().poll(cx).map(|()| Some(None))
        });
        Some(match done.await? {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(failed))) => Err(self.error(ErrorKind::Callback).source_of(failed.into_inner())),
            Some(Err(panic)) => Err(self.error(ErrorKind::Panicked).detail(words(&*panic))),
            None => {
                let detail =
                    format!("the handler took longer than {:?}; raise `deadline`, or do less in it", self.deadline);
                Err(self.error(ErrorKind::Timeout).detail(detail))
            }
        })
    }

    /// Says what becomes of a delivery whose handler failed.
    fn failed(&self, stored: &Stored, error: &Error) -> Fate {
        let random = self.stream.host().random();
        let after = self.retry.as_ref().and_then(|retry| retry.after(stored.attempt, random));
        let Some(after) = after else {
            self.unsettled(stored, error);
            return Fate::Unsettled;
        };
        let (position, attempt) = (stored.position, stored.attempt);
        telemetry::retrying(self.stream.declaration(), self.stream.broker().inner.system, position, attempt, error);
        if let Some(notice) = &self.notice {
            notice(WorkerNotice::Retrying { position, attempt, after, error });
        }
        Fate::Again(after)
    }

    fn unsettled(&self, stored: &Stored, error: &Error) {
        let paused = self.queue.pause(self.index, stored);
        let (position, attempt) = (stored.position, stored.attempt);
        telemetry::unsettled(self.stream.declaration(), self.stream.broker().inner.system, position, attempt, error);
        if let Some(notice) = &self.notice {
            notice(WorkerNotice::Unsettled { position, attempt, error });
        }
        if paused > self.paused_keys {
            let detail = format!(
                "more than {} keys are paused by deliveries that failed; see to those, or raise `paused_keys`",
                self.paused_keys
            );
            self.queue.fail(self.error(ErrorKind::Overloaded).detail(detail));
        }
    }

    fn error(&self, kind: ErrorKind) -> Error {
        self.stream.error(kind, Operation::Work)
    }
}

struct Ended<'a>(&'a Queue);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.slot_ended();
    }
}
