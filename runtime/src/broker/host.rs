use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};

use super::Limits;
use super::config::{Clock, Random};
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
    clock: Clock,
    pub(crate) tracker: Arc<Tracker>,
    /// Places taken by operations, and how many wait for one. A semaphore's lock would cost more than a publish has.
    taken: AtomicUsize,
    waiting: AtomicUsize,
    line: tokio::sync::Mutex<()>,
    /// Told when a place comes free while someone waits or the broker closes.
    freed: Notify,
    closing: AtomicBool,
    closing_told: watch::Sender<bool>,
}

impl Host {
    pub(super) fn new(limits: Limits, random: Random, clock: Clock) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = Shared {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            limits,
            random,
            clock,
            tracker: Arc::default(),
            taken: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: tokio::sync::Mutex::new(()),
            freed: Notify::new(),
            closing: AtomicBool::new(false),
            closing_told: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the broker's limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Returns a uniform random number, for jitter and ids.
    #[must_use]
    pub fn random(&self) -> u64 {
        (self.shared.random)()
    }

    /// Returns the wall clock's time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        (self.shared.clock)()
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

    /// Starts a thread that close waits for, for a library whose calls block. The name stands in the error of a close that
    /// couldn't. It must end soon after the client is closed or dropped.
    ///
    /// A panic ends the thread and is logged; what the thread owned must tell its users by being dropped.
    ///
    /// # Errors
    ///
    /// The system's own, where it has no thread left.
    pub fn spawn_thread(&self, name: &'static str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let entry = self.shared.tracker.enter(Tracked::Task, name);
        let named = std::thread::Builder::new().name(name.to_owned());
        named.spawn(move || {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
                crate::telemetry::task_panicked(name);
            }
            drop(entry);
        })?;
        Ok(())
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
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        shared.taken.fetch_sub(1, Ordering::SeqCst);
        // Both rise before their owners look at `taken`, so nobody sleeps through this.
        if shared.waiting.load(Ordering::SeqCst) > 0 || shared.closing.load(Ordering::SeqCst) {
            shared.freed.notify_waiters();
        }
    }
}

/// One who waits, and counts as long: where it is for a place, newcomers stand in line too.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    pub(crate) fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// Waits for a place, in order of arrival.
    ///
    /// Fails with `Overloaded` after min(timeout, 5 s) and with `Closed` as soon as the broker closes.
    pub(crate) async fn admit(&self) -> Result<Place<'_>, ErrorKind> {
        let free = if self.waiting.load(Ordering::SeqCst) == 0 { self.take_place() } else { None };
        let place = match free {
            Some(place) => place,
            // In a box: it is large and rare, and would be moved with every publish.
            None => Box::pin(self.wait_for_place()).await?,
        };
        if self.closing.load(Ordering::SeqCst) { Err(ErrorKind::Closed) } else { Ok(place) }
    }

    fn take_place(&self) -> Option<Place<'_>> {
        let one_more = |taken| (taken < self.limits.operations).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        taken.ok().map(|_| Place { shared: self })
    }

    async fn wait_for_place(&self) -> Result<Place<'_>, ErrorKind> {
        let _waiting = Waiting::new(&self.waiting);
        let mut told = self.closing_told.subscribe();
        let waited = tokio::time::timeout(self.limits.timeout.min(LONGEST_WAIT), async {
            let closing = told.wait_for(|closing| *closing);
            let place = async {
                // A fair lock: its holder is the first in line.
                let _first = self.line.lock().await;
                loop {
                    let freed = self.freed.notified();
                    tokio::pin!(freed);
                    freed.as_mut().enable();
                    if let Some(place) = self.take_place() {
                        return place;
                    }
                    freed.await;
                }
            };
            tokio::pin!(closing, place);
            std::future::poll_fn(|cx| {
                use std::task::Poll;
                if closing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(ErrorKind::Closed));
                }
                place.as_mut().poll(cx).map(Ok)
            })
            .await
        });
        waited.await.unwrap_or(Err(ErrorKind::Overloaded))
    }

    pub(crate) fn operations(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    pub(super) fn start_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.closing_told.send_replace(true);
    }

    /// Waits until no operation holds a place; the broker must be closing.
    pub(super) async fn operations_ended(&self) {
        loop {
            let ended = self.freed.notified();
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
