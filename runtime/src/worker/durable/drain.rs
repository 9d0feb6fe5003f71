//! A stop: what is under way finishes, the rest goes back.

use std::collections::HashSet;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::WorkerNotice;
use super::Run;
use crate::broker::lock;
use crate::capability::{BoundDurable as _, Cursors, Verdict};
use crate::declaration::StreamSpec;
use crate::error::{ErrorKind, Operation};
use crate::telemetry;
use crate::topic::Backoff;

/// How long giving back may take once a stop's budget is over.
const GIVE_BACK: Duration = Duration::from_secs(1);

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: Cursors,
    S: Clone + Send + Sync + 'static,
{
    /// Lets what is under way finish and be settled within the budget, and gives back the rest.
    pub(super) async fn drain(&self, handle: Option<B::Durable>, since: Instant) {
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
    pub(super) async fn give_back(&self, handle: &B::Durable) {
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
