//! Settling what was handled, refusing what failed, and keeping alive what is here.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::WorkerNotice;
use super::{Held, Run};
use crate::broker::lock;
use crate::capability::{BoundDurable as _, Cursors, Verdict};
use crate::declaration::StreamSpec;
use crate::error::{Error, Operation};
use crate::stream::Position;

/// How often it looks up to where everything is settled.
const LOOK: Duration = Duration::from_secs(1);
/// How long after its delay a delivery that failed is expected here, before what is behind it of its key goes on.
const EXPECTED: Duration = Duration::from_secs(5);

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: Cursors,
    S: Clone + Send + Sync + 'static,
{
    /// Settles what was handled and refuses what failed, all that there is each time, until nothing more comes.
    pub(super) async fn settle(&self, handle: &B::Durable, has_ended: impl Fn() -> bool) -> Result<(), Error> {
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

    pub(super) async fn record(
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
            not_recorded.extend(positions.iter().map(|(position, _)| *position));
            failed = Some(error);
        });
        for ((position, verdict), settled) in positions.into_iter().zip(settled.into_iter().flatten()) {
            match (settled, verdict) {
                (Ok(()), Verdict::Nak(delay)) => {
                    // Meanwhile it may have come again.
                    if let Some(again) = lock(&self.held).get_mut(&position).and_then(|held| held.again.as_mut()) {
                        *again = Instant::now() + delay;
                    }
                }
                (Ok(()), _) => drop(lock(&self.held).remove(&position)),
                (Err(error), _) => {
                    not_recorded.insert(position);
                    failed = Some(self.stream.failed(error, Operation::Work));
                }
            }
        }
        self.queue.settled_but(&not_recorded);
        self.progress.store(true, Ordering::Release);
        self.expects.notify_one();
        failed.map_or(Ok(()), Err)
    }

    /// Keeps what is here from being handed out again, and looks up to where everything is settled. It ends by an error, or
    /// without one where somebody has changed the durable's settings.
    pub(super) async fn keep(&self, handle: &B::Durable) -> Option<Error> {
        let mut looked = Instant::now();
        loop {
            let third = lock(&self.settings).shortest_wait() / 3;
            sleep(third.min(LOOK)).await;
            let kept = async {
                self.extend(handle, third).await?;
                self.let_go();
                self.tell_held_up();
                let mut is_as_before = true;
                let is_due = looked.elapsed() >= LOOK && !lock(&self.held).is_empty();
                if self.progress.swap(false, Ordering::AcqRel) || is_due {
                    looked = Instant::now();
                    // Before it is asked, so that nothing that is settled was appended after that.
                    let now = self.stream.host().now();
                    let info = self.worker.group.inspect(Operation::Work).await?;
                    *lock(&self.settled) = (info.settled, now);
                    is_as_before = *lock(&self.settings) == info.settings;
                }
                Ok(is_as_before)
            };
            match kept.await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    pub(super) async fn extend(&self, handle: &B::Durable, third: Duration) -> Result<(), Error> {
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
    pub(super) fn let_go(&self) {
        let now = Instant::now();
        let is_late = |held: &Held| held.again.is_some_and(|again| again + EXPECTED <= now);
        let late: Vec<_> = lock(&self.held).iter().filter(|(_, held)| is_late(held)).map(|(at, _)| *at).collect();
        for position in late {
            self.given_up(position);
        }
    }

    /// Tells it once when all that may be in flight waits here behind what failed for good.
    pub(super) fn tell_held_up(&self) {
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
}
