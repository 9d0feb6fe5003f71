//! Settling what was handled, refusing what failed, and keeping alive what is here.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::super::WorkerNotice;
use super::Run;
use crate::broker::lock;
use crate::capability::{BoundDurable as _, Cursors, Verdict};
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};
use crate::stream::Position;

/// How often it looks up to where everything is settled.
const LOOK: Duration = Duration::from_secs(1);
/// How long after its delay a delivery that failed is expected here. Where the system answers after that and it hasn't come,
/// another has it, and what is behind it of its key goes on.
const EXPECTED: Duration = Duration::from_millis(500);

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
                (Err(error), Verdict::Nak(_)) if error.kind == ErrorKind::Forgotten => {
                    if let Some(again) = lock(&self.held).get_mut(&position).and_then(|held| held.again.as_mut()) {
                        *again = Instant::now();
                    }
                }
                // It is settled once it is back, under its new ticket; nothing comes back after a stop.
                (Err(error), _) if error.kind == ErrorKind::Forgotten && !self.is_stopped() => {
                    self.is_forgotten(position);
                    not_recorded.insert(position);
                }
                (Err(error), _) if error.kind == ErrorKind::Forgotten => {
                    lock(&self.held).remove(&position);
                    let error = self.stream.failed(error, Operation::Work);
                    self.notice(WorkerNotice::Failed { error: &error, attempts: 1 });
                }
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
            let now = Instant::now();
            let look = now + third.min(LOOK);
            let (_, overdue) = self.overdue(now);
            sleep_until(overdue.map_or(look, |overdue| overdue.min(look))).await;
            let kept = async {
                self.extend(handle, third).await?;
                self.let_go().await?;
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
        let positions: Vec<_> = old.iter().map(|(ticket, _)| ticket.position).collect();
        let kept = self.operate(async { Ok(handle.settle(old).await) }).await?;
        for (position, kept) in positions.into_iter().zip(kept) {
            match kept {
                Err(error) if error.kind == ErrorKind::Forgotten => self.is_forgotten(position),
                kept => kept.map_err(|error| self.stream.failed(error, Operation::Work))?,
            }
        }
        Ok(())
    }

    /// What is here is asked for again, as it is handed out again.
    fn is_forgotten(&self, position: Position) {
        if let Some(held) = lock(&self.held).get_mut(&position) {
            held.forgotten = true;
        }
        self.expects.notify_one();
    }

    /// What hasn't come again in its time, and when the next is overdue.
    fn overdue(&self, now: Instant) -> (Vec<(Position, Instant)>, Option<Instant>) {
        let held = lock(&self.held);
        let expected = held.iter().filter_map(|(at, held)| Some((*at, held.again? + EXPECTED)));
        let (late, next): (Vec<_>, Vec<_>) = expected.partition(|(_, expected)| *expected <= now);
        (late, next.into_iter().map(|(_, expected)| expected).min())
    }

    /// Lets what is behind a delivery go on that another worker must have got.
    async fn let_go(&self) -> Result<(), Error> {
        let (late, _) = self.overdue(Instant::now());
        if late.is_empty() {
            return Ok(());
        }
        // What it handed out here before it answers has come by then.
        self.worker.group.inspect(Operation::Work).await?;
        for (position, expected) in late {
            let is_late = lock(&self.held).get(&position).and_then(|held| held.again).map(|again| again + EXPECTED);
            if is_late == Some(expected) {
                self.given_up(position);
            }
        }
        Ok(())
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
