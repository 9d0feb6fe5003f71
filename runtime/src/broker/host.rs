use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};

use super::Limits;
use super::config::Random;
use super::tracker::{Tracked, Tracker};
use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// An operation waits for a free place at most this long, or its timeout where that is shorter.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// The brokers inside whose callbacks the current task runs.
    static INSIDE: Vec<u64>;
}

/// What a broker lends its backend's client: limits, tasks, randomness and the news of its closing.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

/// The part of a broker that doesn't know its backend.
pub(crate) struct Shared {
    id: u64,
    pub(crate) limits: Limits,
    random: Random,
    pub(crate) tracker: Arc<Tracker>,
    places: Semaphore,
    closing: AtomicBool,
    closing_told: watch::Sender<bool>,
    operation_ended: Notify,
}

impl Host {
    pub(super) fn new(limits: Limits, random: Random) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // A count over its bound is refused by the caller, with everything else that is wrong.
        let places = Semaphore::new(limits.operations.min(Semaphore::MAX_PERMITS));
        let shared = Shared {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            limits,
            random,
            tracker: Arc::default(),
            places,
            closing: AtomicBool::new(false),
            closing_told: watch::Sender::new(false),
            operation_ended: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the broker's limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Returns a uniform random number, for jitter.
    #[must_use]
    pub fn random(&self) -> u64 {
        (self.shared.random)()
    }

    /// Says whether the broker is closed or closing.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Waits until the broker closes.
    pub async fn closing(&self) {
        // The sender lives in `self`, so the channel can't end first.
        let _ = self.shared.closing_told.subscribe().wait_for(|closing| *closing).await;
    }

    /// Spawns a task that close waits for. The name stands in the error of a close that couldn't.
    ///
    /// A panic ends the task and is logged; what the task owned must tell its users by being dropped.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let entry = self.shared.tracker.enter(Tracked::Task, name);
        // The one place where the crate spawns.
        #[allow(clippy::disallowed_methods)]
        tokio::spawn(async move {
            if super::caught(task).await.is_err() {
                crate::telemetry::task_panicked(name);
            }
            drop(entry);
        });
    }

    /// Runs one step of an operation within [`Limits::timeout`], and gives it up when the broker closes.
    ///
    /// # Errors
    ///
    /// The step's own, or `Timeout` or `Closed` with the outcome that the caller knows for a step cut short.
    pub async fn within<T>(
        &self,
        cut_short: Outcome,
        step: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        self.within_time(self.shared.limits.timeout, cut_short, step).await
    }

    pub(crate) async fn within_time<T>(
        &self,
        most: Duration,
        cut_short: Outcome,
        step: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        tokio::pin!(step);
        let closing = self.closing();
        tokio::pin!(closing);
        let expired = tokio::time::sleep(most);
        tokio::pin!(expired);
        std::future::poll_fn(|cx| {
            use std::task::Poll;
            if let Poll::Ready(done) = step.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            if closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(BackendError::new(ErrorKind::Closed, cut_short)));
            }
            if expired.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(BackendError::new(ErrorKind::Timeout, cut_short)));
            }
            Poll::Pending
        })
        .await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

/// A place among the operations at once.
pub(crate) struct Place<'a> {
    shared: &'a Shared,
    permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.permit = None;
        if self.shared.closing.load(Ordering::Acquire) {
            self.shared.operation_ended.notify_waiters();
        }
    }
}

impl Shared {
    /// Waits for a place, in order of arrival.
    ///
    /// Fails with `Overloaded` after min(timeout, 5 s) and with `Closed` as soon as the broker closes.
    pub(crate) async fn admit(&self) -> Result<Place<'_>, ErrorKind> {
        let permit = match self.places.try_acquire() {
            Ok(permit) => permit,
            // In a box: it is large and rare, and would be moved with every publish.
            Err(_) => Box::pin(self.wait_for_place()).await?,
        };
        let place = Place { shared: self, permit: Some(permit) };
        if self.closing.load(Ordering::Acquire) { Err(ErrorKind::Closed) } else { Ok(place) }
    }

    async fn wait_for_place(&self) -> Result<SemaphorePermit<'_>, ErrorKind> {
        let mut told = self.closing_told.subscribe();
        let waited = tokio::time::timeout(self.limits.timeout.min(LONGEST_WAIT), async {
            let closing = told.wait_for(|closing| *closing);
            let place = self.places.acquire();
            tokio::pin!(closing, place);
            std::future::poll_fn(|cx| {
                use std::task::Poll;
                if closing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(ErrorKind::Closed));
                }
                place.as_mut().poll(cx).map(|permit| permit.map_err(|_| ErrorKind::Closed))
            })
            .await
        });
        waited.await.unwrap_or(Err(ErrorKind::Overloaded))
    }

    pub(crate) fn operations(&self) -> usize {
        self.limits.operations - self.places.available_permits()
    }

    pub(super) fn start_closing(&self) {
        self.closing.store(true, Ordering::Release);
        self.closing_told.send_replace(true);
    }

    /// Waits until no operation holds a place; the broker must be closing.
    pub(super) async fn operations_ended(&self) {
        loop {
            let ended = self.operation_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.operations() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Says whether the current task runs inside one of this broker's callbacks.
    pub(super) fn is_inside(&self) -> bool {
        INSIDE.try_with(|inside| inside.contains(&self.id)).unwrap_or(false)
    }

    /// Marks a callback's future, so that a close from inside it is refused.
    pub(crate) fn inside<F: Future>(&self, callback: F) -> impl Future<Output = F::Output> + use<F> {
        let mut inside = INSIDE.try_with(Clone::clone).unwrap_or_default();
        inside.push(self.id);
        INSIDE.scope(inside, callback)
    }
}
