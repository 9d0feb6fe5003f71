//! Taking deliveries ahead, as far as there is room, and those again that failed.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::super::WorkerNotice;
use super::super::shared::measured;
use super::{Held, Run};
use crate::broker::lock;
use crate::capability::{BoundDurable as _, Cursors, Pulled, Stored};
use crate::declaration::StreamSpec;
use crate::error::{Error, Operation};
use crate::stream::Position;
use crate::telemetry;

/// A pull waits at most so long, since one without end couldn't be told from one that hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: Cursors,
    S: Clone + Send + Sync + 'static,
{
    pub(super) async fn read_ahead(&self, handle: &B::Durable) -> Result<Infallible, Error> {
        // What was asked for may come at any time, so it is always waited for, and there is room for it.
        let mut asked = 0;
        loop {
            let max = if asked == 0 { self.room().await } else { self.room_now().max(asked) };
            let pulled = self.stream.observe(Operation::Work, handle.pull(max, LONGEST_WAIT)).await?;
            let deliveries = pulled.iter().filter(|pulled| matches!(pulled, Pulled::Delivery(..))).count();
            asked = if pulled.is_empty() { 0 } else { max.saturating_sub(deliveries) };
            self.take(pulled);
        }
    }

    /// Takes in what was handed out.
    pub(super) fn take(&self, pulled: Vec<Pulled>) {
        let mut new: Vec<Stored> = Vec::new();
        for pulled in pulled {
            let (stored, ticket) = match pulled {
                Pulled::Delivery(stored, ticket) => (stored, ticket),
                Pulled::Exhausted(position) => {
                    telemetry::undelivered(self.stream.declaration(), self.system(), position);
                    self.notice(WorkerNotice::Undelivered { position });
                    self.given_up(position);
                    continue;
                }
                Pulled::Trimmed { after, first } => {
                    telemetry::trimmed(self.stream.declaration(), self.system(), after, first, true);
                    self.notice(WorkerNotice::Trimmed { after, first, certain: true });
                    continue;
                }
            };
            let key = stored.record.key.as_deref().map(Bytes::copy_from_slice);
            let (position, attempt) = (stored.position, stored.attempt);
            let held = Held { ticket, attempt, key, since: Instant::now(), again: None, forgotten: false };
            match lock(&self.held).insert(position, held) {
                None => new.push(stored),
                Some(before) if before.again.is_some() => self.queue.again(stored),
                // Its ack wait was over, for a connection that was lost perhaps, and it is here still.
                Some(_) => {}
            }
        }
        measured(&self.average, &new);
        self.queue.push(new, false);
    }

    /// Lets go of what never comes again, or comes to another worker.
    pub(super) fn given_up(&self, position: Position) {
        let held = {
            let mut held = lock(&self.held);
            if held.get(&position).is_none_or(|held| held.again.is_none()) {
                return;
            }
            held.remove(&position)
        };
        if let Some(key) = held.and_then(|held| held.key) {
            self.queue.resume(&key);
        }
    }

    /// Waits for room, or until something comes again, and says for how many deliveries.
    pub(super) async fn room(&self) -> usize {
        let most = self.stream.broker().limits().read_records;
        let mut room = pin!(self.worker.wait_for_room(&self.queue));
        loop {
            let mut told = pin!(self.expects.notified());
            told.as_mut().enable();
            let now = Instant::now();
            let (due, next) = self.expected(now);
            // What comes again is handed out first, so it needs its own place and no more.
            if due > 0 && self.queue.waiting().0 < self.worker.settings.read_ahead + due {
                return due.min(most);
            }
            let mut coming = pin!(sleep_until(next.unwrap_or(now + LONGEST_WAIT)));
            let has_room = poll_fn(|cx| {
                if room.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                if told.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(false);
                }
                coming.as_mut().poll(cx).map(|()| false)
            });
            if has_room.await {
                return self.worker.room(&self.queue, &self.average, most);
            }
        }
    }

    /// For how many deliveries there is room, without waiting for more.
    pub(super) fn room_now(&self) -> usize {
        if self.queue.waiting().0 > self.worker.settings.read_ahead / 2 {
            return 0;
        }
        self.worker.room(&self.queue, &self.average, self.stream.broker().limits().read_records)
    }

    /// How much should have come again by now, and when the next does.
    pub(super) fn expected(&self, now: Instant) -> (usize, Option<Instant>) {
        let held = lock(&self.held);
        let again = held.values().filter_map(|held| held.again);
        let forgotten = held.values().filter(|held| held.forgotten).count();
        let due = again.clone().filter(|again| *again <= now).count() + forgotten;
        (due, again.filter(|again| *again > now).min())
    }
}
