//! What callers have waiting, put together so that it goes out at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::super::fault::Fault;
use super::super::link::{Reply, pack};
use crate::broker::lock;
use crate::capability::Outgoing;

/// At most so many commands go out as one write.
pub(super) const MOST_COMMANDS: usize = 512;
/// A batch of so many bytes takes no more.
const MOST_BYTES: usize = 256 << 10;
/// As many written buffers are kept for later batches.
const SPARES: usize = 4;

/// The commands that wait, oldest batch first, and the task that takes them.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
    /// The task's, while it has nothing to do.
    pub(super) idle: Option<Waker>,
    pub(super) running: bool,
    pub(super) closed: bool,
    spares: Vec<Vec<u8>>,
    /// How many operations whose callers gave up wait or are under way.
    abandoned: Arc<AtomicUsize>,
}

/// A batch that wasn't sent.
pub(super) struct Pending {
    pub(super) bytes: Vec<u8>,
    pub(super) replies: Replies,
    /// When its first caller came.
    pub(super) arrived: Instant,
}

/// The task's end of a batch: it fills in one reply after another. Dropped early, it fails the rest.
pub(super) struct Replies {
    batch: Arc<Batch>,
    /// How many commands the batch has.
    pub(super) expected: usize,
    received: Vec<Reply>,
    /// What becomes of those without a reply.
    fault: Fault,
}

/// The callers' end.
#[derive(Debug, Default)]
pub(super) struct Batch {
    state: Mutex<State>,
    /// The queue's count.
    abandoned: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum State {
    Waiting {
        /// Those of callers, each at its command's place.
        wakers: Vec<Option<Waker>>,
        /// How many callers gave up.
        abandoned: usize,
    },
    Done(Vec<Reply>),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting { wakers: Vec::new(), abandoned: 0 }
    }
}

/// A caller that waits for a batch. Dropped before it is done, its operation counts as abandoned until the batch is.
pub(super) struct Caller {
    batch: Option<Arc<Batch>>,
}

impl Queue {
    /// Appends one command, and returns its batch and its place there.
    pub(super) fn push(&mut self, word: &str, message: &Outgoing) -> (Arc<Batch>, usize) {
        let full = |pending: &Pending| pending.replies.expected >= MOST_COMMANDS || pending.bytes.len() >= MOST_BYTES;
        if self.waiting.back().is_none_or(full) {
            let batch = Arc::new(Batch { state: Mutex::default(), abandoned: self.abandoned.clone() });
            let fault = Fault::unreachable("the task that publishes ended");
            let replies = Replies { batch, expected: 0, received: Vec::new(), fault };
            let bytes = self.spares.pop().unwrap_or_default();
            self.waiting.push_back(Pending { bytes, replies, arrived: Instant::now() });
        }
        let pending = self.waiting.back_mut().expect("a batch with room was just pushed");
        let words = [word.as_bytes(), message.channel.as_bytes(), &message.payload];
        pack(&mut pending.bytes, words.into_iter());
        pending.replies.expected += 1;
        (pending.replies.batch.clone(), pending.replies.expected - 1)
    }

    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn front(&self) -> Option<&Pending> {
        self.waiting.front()
    }

    pub(super) fn pop(&mut self) -> Option<Pending> {
        self.waiting.pop_front()
    }

    /// Puts a batch of which nothing was sent back in its place.
    pub(super) fn put_back(&mut self, pending: Pending) {
        self.waiting.push_front(pending);
    }

    pub(super) fn drain(&mut self) -> VecDeque<Pending> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= 2 * MOST_BYTES {
            bytes.clear();
            self.spares.push(bytes);
        }
    }
}

impl Replies {
    /// Takes the next reply, and says whether it was the last.
    pub(super) fn receive(&mut self, reply: Reply) -> bool {
        if self.received.is_empty() {
            self.received.reserve_exact(self.expected);
        }
        self.received.push(reply);
        self.received.len() == self.expected
    }

    /// Fails what has no reply yet, when this is dropped.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.fault = fault;
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let mut replies = std::mem::take(&mut self.received);
        while replies.len() < self.expected {
            replies.push(Err(self.fault.clone()));
        }
        let mut state = lock(&self.batch.state);
        let before = std::mem::replace(&mut *state, State::Done(replies));
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
    /// Waits for one reply.
    pub(super) fn poll_one(&self, place: usize, cx: &mut Context<'_>) -> Poll<Reply> {
        match &mut *lock(&self.state) {
            State::Done(replies) => Poll::Ready(replies[place].clone()),
            State::Waiting { wakers, .. } => {
                wait(wakers, place, cx);
                Poll::Pending
            }
        }
    }

    /// Waits for the replies of one caller, which all come at once.
    pub(super) fn poll_range(&self, places: Range<usize>, cx: &mut Context<'_>) -> Poll<Vec<Reply>> {
        match &mut *lock(&self.state) {
            State::Done(replies) => Poll::Ready(replies[places].to_vec()),
            State::Waiting { wakers, .. } => {
                wait(wakers, places.end - 1, cx);
                Poll::Pending
            }
        }
    }
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
