//! What callers have waiting, put together so that it goes out at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::super::fault::Fault;
use super::super::link::Facts;
use super::super::wire;
use super::pace::Pace;
use super::request::{Requests, SHARED_SID};
use crate::broker::lock;

/// At most so many messages go out as one write.
const MOST_MESSAGES: usize = 512;
/// A batch of so many bytes takes no more.
const MOST_BYTES: usize = 256 << 10;
/// As many written buffers are kept for later batches.
const SPARES: usize = 4;

/// The messages that wait, oldest batch first, and the task that takes them.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
    pace: Pace,
    /// The task's, while it has nothing to do.
    pub(super) idle: Option<Waker>,
    pub(super) running: bool,
    pub(super) closed: bool,
    /// What the server of the connection there is says of itself.
    pub(super) facts: Option<Facts>,
    pub(super) requests: Option<Arc<Mutex<Requests>>>,
    spares: Vec<Vec<u8>>,
    /// How many operations whose callers gave up wait or are under way.
    abandoned: Arc<AtomicUsize>,
}

/// A batch, until the server has confirmed it. Dropped early, it fails those who wait for it.
pub(super) struct Pending {
    pub(super) bytes: Vec<u8>,
    places: Vec<Place>,
    batch: Arc<Batch>,
    requests: Option<Arc<Mutex<Requests>>>,
    /// When its first caller came.
    pub(super) arrived: Instant,
    refused: Vec<(usize, Fault)>,
    /// Refusals come in the order of the messages, so the next one is of this place or behind.
    next: usize,
    /// What becomes of those that aren't refused.
    failed: Option<Fault>,
}

/// One message of a batch.
#[derive(Debug)]
struct Place {
    /// All of it.
    bytes: Range<usize>,
    subject: Range<usize>,
    /// Headers and payload, which is what servers limit.
    size: usize,
    /// Who waits for the replies.
    token: Option<u64>,
    /// Whether nothing of who waits was sent before.
    is_first: bool,
}

/// The callers' end.
#[derive(Debug)]
pub(super) struct Batch {
    state: Mutex<State>,
    /// The queue's count.
    abandoned: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum State {
    Waiting {
        /// Those of callers, each at its message's place.
        wakers: Vec<Option<Waker>>,
        /// How many callers gave up.
        abandoned: usize,
    },
    Done {
        refused: Vec<(usize, Fault)>,
        failed: Option<Fault>,
    },
}

/// A caller that waits for a batch. Dropped before it is done, its operation counts as abandoned until the batch is.
pub(super) struct Caller {
    batch: Option<Arc<Batch>>,
}

impl Queue {
    /// Appends a message, and returns its batch and its place there.
    pub(super) fn publish(&mut self, subject: &str, payload: &[u8]) -> (Arc<Batch>, usize) {
        self.last().push(subject, "", None, &[], payload)
    }

    /// Appends a message that is answered.
    pub(super) fn request(
        &mut self,
        subject: &str,
        reply: &str,
        token: u64,
        head: &[u8],
        payload: &[u8],
    ) -> (Arc<Batch>, usize) {
        self.last().push(subject, reply, Some(token), head, payload)
    }

    /// Appends that replies to a request of many are sent here, under a number of its own.
    pub(super) fn listen(&mut self, subject: &str, token: u64) {
        self.last().command(Some(token), |bytes| wire::subscribe(bytes, subject, SHARED_SID + token));
    }

    /// Appends that they aren't wanted any more.
    pub(super) fn leave(&mut self, token: u64) {
        self.last().command(None, |bytes| wire::unsubscribe(bytes, SHARED_SID + token));
    }

    /// Appends nothing, which is confirmed as a message would be.
    pub(super) fn look(&mut self) -> (Arc<Batch>, usize) {
        let pending = self.last();
        pending.command(None, |_| {});
        (pending.batch.clone(), pending.places.len() - 1)
    }

    /// The batch that takes the next message.
    fn last(&mut self) -> &mut Pending {
        if self.waiting.back().is_none_or(|pending| self.is_full(pending)) {
            let pending = self.empty();
            self.waiting.push_back(pending);
        }
        self.pace.pushed();
        self.waiting.back_mut().expect("a batch with room was just pushed")
    }

    /// A batch that only asks for a sign of life.
    pub(super) fn empty(&mut self) -> Pending {
        let state = State::Waiting { wakers: Vec::new(), abandoned: 0 };
        Pending {
            bytes: self.spares.pop().unwrap_or_default(),
            places: Vec::new(),
            batch: Arc::new(Batch { state: Mutex::new(state), abandoned: self.abandoned.clone() }),
            requests: self.requests.clone(),
            arrived: Instant::now(),
            refused: Vec::new(),
            next: 0,
            failed: Some(Fault::task_ended()),
        }
    }

    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn front(&self) -> Option<&Pending> {
        self.waiting.front()
    }

    /// Says whether a batch takes no more.
    fn is_full(&self, pending: &Pending) -> bool {
        let messages = pending.places.len();
        messages >= MOST_MESSAGES || pending.bytes.len() >= MOST_BYTES || self.pace.is_full(messages)
    }

    /// Says whether the oldest batch may still grow.
    pub(super) fn may_grow(&self) -> bool {
        self.waiting.len() == 1 && self.waiting.front().is_some_and(|pending| !self.is_full(pending))
    }

    /// Takes the oldest batch, while so many messages aren't confirmed.
    pub(super) fn pop(&mut self, unconfirmed: usize) -> Option<Pending> {
        let pending = self.waiting.pop_front()?;
        self.pace.popped(pending.places.len(), unconfirmed);
        Some(pending)
    }

    /// Puts a batch of which nothing was sent back in its place.
    pub(super) fn put_back(&mut self, mut pending: Pending) {
        pending.unseal();
        self.pace.put_back(pending.places.len());
        self.waiting.push_front(pending);
    }

    pub(super) fn drain(&mut self) -> VecDeque<Pending> {
        self.pace.drained();
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= 2 * MOST_BYTES {
            bytes.clear();
            self.spares.push(bytes);
        }
    }
}

impl Pending {
    fn push(
        &mut self,
        subject: &str,
        reply: &str,
        token: Option<u64>,
        head: &[u8],
        payload: &[u8],
    ) -> (Arc<Batch>, usize) {
        let from = self.bytes.len();
        wire::publish(&mut self.bytes, subject, reply, head, payload);
        // Behind `PUB ` or `HPUB `.
        let named = from + if head.is_empty() { 4 } else { 5 };
        self.places.push(Place {
            bytes: from..self.bytes.len(),
            subject: named..named + subject.len(),
            size: head.len() + payload.len(),
            token,
            is_first: false,
        });
        (self.batch.clone(), self.places.len() - 1)
    }

    /// Adds what is no message.
    fn command(&mut self, token: Option<u64>, write: impl FnOnce(&mut Vec<u8>)) {
        let from = self.bytes.len();
        write(&mut self.bytes);
        let bytes = from..self.bytes.len();
        self.places.push(Place { bytes, subject: from..from, size: 0, token, is_first: false });
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Whether it is one request, whose reply confirms it, and which the server takes.
    pub(super) fn is_request(&self, most: usize) -> bool {
        matches!(&*self.places, [Place { token: Some(_), subject, size, .. }] if !subject.is_empty() && *size <= most)
    }

    /// Whether it is the request of this token.
    pub(super) fn is_of(&self, token: u64) -> bool {
        self.places.last().is_some_and(|place| place.token == Some(token))
    }

    /// Appends the question whose answer confirms the batch, unless it is confirmed otherwise. What the server wouldn't
    /// take is left out: it closes the connection for it.
    pub(super) fn seal(&mut self, most: usize, asks: bool) {
        let large = |place: &Place| place.size > most;
        if self.places.iter().any(large) {
            let mut kept = Vec::with_capacity(self.bytes.len());
            for (number, place) in self.places.iter_mut().enumerate() {
                let from = kept.len();
                if place.size > most {
                    self.refused.push((number, Fault::too_large(place.size, most)));
                } else {
                    kept.extend_from_slice(&self.bytes[place.bytes.clone()]);
                }
                let shift = place.bytes.start - from;
                place.subject = place.subject.start - shift..place.subject.end - shift;
                place.bytes = from..kept.len();
                // Put back and sealed again for another server, it is refused once.
                place.size = place.size.min(most);
            }
            self.bytes = kept;
        }
        if asks {
            self.bytes.extend_from_slice(wire::PING);
        }
        self.each_token(|requests, token, is_first| *is_first = requests.launched(token));
    }

    fn unseal(&mut self) {
        self.bytes.truncate(self.places.last().map_or(0, |place| place.bytes.end));
        self.next = 0;
        // Who listens by what was sent before is lost with the connection.
        self.each_token(|requests, token, is_first| {
            if std::mem::take(is_first) {
                requests.put_back(token);
            }
        });
    }

    fn each_token(&mut self, act: impl Fn(&mut Requests, u64, &mut bool)) {
        let Some(requests) = &self.requests else { return };
        let mut requests = lock(requests);
        for Place { token, is_first, .. } in &mut self.places {
            if let Some(token) = token {
                act(&mut requests, *token, is_first);
            }
        }
    }

    /// Takes note that the server refused the next message to this subject, and says whether there is one.
    pub(super) fn refuse(&mut self, subject: &str, fault: &Fault) -> bool {
        let is_meant = |place: &Place| {
            !place.bytes.is_empty() && self.bytes.get(place.subject.clone()) == Some(subject.as_bytes())
        };
        let Some(steps) = self.places[self.next..].iter().position(is_meant) else { return false };
        self.refused.push((self.next + steps, fault.clone()));
        self.next += steps + 1;
        true
    }

    /// The server has confirmed it: what wasn't refused was taken.
    pub(super) fn confirm(mut self) -> Vec<u8> {
        self.failed = None;
        std::mem::take(&mut self.bytes)
    }

    /// Fails what wasn't refused, when this is dropped.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.failed = Some(fault);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let refused = std::mem::take(&mut self.refused);
        if let Some(requests) = &self.requests {
            let mut requests = lock(requests);
            for (number, fault) in &refused {
                if let Some(token) = self.places[*number].token {
                    requests.fail(token, fault);
                }
            }
            if let Some(fault) = &self.failed {
                self.places.iter().filter_map(|place| place.token).for_each(|token| requests.fail(token, fault));
            }
        }
        let mut state = lock(&self.batch.state);
        let before = std::mem::replace(&mut *state, State::Done { refused, failed: self.failed.take() });
        drop(state);
        if let State::Waiting { wakers, abandoned } = before {
            self.batch.abandoned.fetch_sub(abandoned, Ordering::Relaxed);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

impl Caller {
    pub(super) fn new(batch: Arc<Batch>) -> Self {
        Self { batch: Some(batch) }
    }

    pub(super) fn finish(mut self) {
        self.batch = None;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let Some(batch) = &self.batch else { return };
        if let State::Waiting { abandoned, .. } = &mut *lock(&batch.state) {
            *abandoned += 1;
            batch.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Batch {
    /// Waits until one message is confirmed.
    pub(super) fn poll_one(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        match &mut *lock(&self.state) {
            State::Done { refused, failed } => Poll::Ready(answer(refused, failed.as_ref(), place)),
            State::Waiting { wakers, .. } => {
                wait(wakers, place, cx);
                Poll::Pending
            }
        }
    }

    /// Waits until the messages of one caller are confirmed, which all are at once.
    pub(super) fn poll_range(&self, places: Range<usize>, cx: &mut Context<'_>) -> Poll<Vec<Result<(), Fault>>> {
        match &mut *lock(&self.state) {
            State::Done { refused, failed } => {
                Poll::Ready(places.map(|place| answer(refused, failed.as_ref(), place)).collect())
            }
            State::Waiting { wakers, .. } => {
                wait(wakers, places.end - 1, cx);
                Poll::Pending
            }
        }
    }
}

fn answer(refused: &[(usize, Fault)], failed: Option<&Fault>, place: usize) -> Result<(), Fault> {
    let of_its_own = refused.iter().find(|(number, _)| *number == place).map(|(_, fault)| fault);
    of_its_own.or(failed).map_or(Ok(()), |fault| Err(fault.clone()))
}

fn wait(wakers: &mut Vec<Option<Waker>>, place: usize, cx: &Context<'_>) {
    if wakers.len() <= place {
        wakers.resize(place + 1, None);
    }
    match &mut wakers[place] {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(requests: &Mutex<Requests>, token: u64) -> bool {
        lock(requests).poll(token, &mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_request_that_is_put_back_is_lost_with_what_listens_for_it() {
        let requests = Arc::<Mutex<Requests>>::default();
        let mut queue = Queue { requests: Some(requests.clone()), ..Queue::default() };
        let [before, with] = [0; 2].map(|_| lock(&requests).add());
        queue.listen("inbox.1.*", before);
        let mut sent = queue.pop(0).unwrap();
        sent.seal(usize::MAX, true);
        sent.confirm();
        queue.request("to", "inbox.1.1", before, &[], &[]);
        queue.listen("inbox.2.*", with);
        queue.request("to", "inbox.2.1", with, &[], &[]);
        for _ in 0..2 {
            let mut unsent = queue.pop(0).unwrap();
            unsent.seal(usize::MAX, true);
            queue.put_back(unsent);
            lock(&requests).fail_sent(&Fault::unreachable("the connection broke"));
            assert!(poll(&requests, before), "nobody listens for it on another connection");
            assert!(!poll(&requests, with), "both go out on another connection");
        }
    }
}
