//! What callers have waiting, put together so that it goes out at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::super::fault::Fault;
use super::{Answer, Command, Confirm};
use crate::broker::lock;

/// At most so many commands go out as one write.
const MOST_COMMANDS: usize = 512;
/// A batch of fewer waits for those who are about to append to it, whatever the server has to do.
const LEAST: usize = 2;
/// A batch that is such a part of what the server has to do still is worth a write of its own.
const PART: usize = 4;
/// A batch of so many bytes takes no more.
const MOST_BYTES: usize = 256 << 10;
/// As many written buffers are kept for later batches.
const SPARES: usize = 4;

/// A reply, or why there is none.
type Reply<R> = Result<R, Fault>;

/// The commands that wait, oldest batch first, and the task that takes them.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Queue<R> {
    waiting: VecDeque<Pending<R>>,
    /// How many commands were sent and have no reply.
    pub(super) unanswered: usize,
    /// Whether the connection can't take another batch now. Its task goes on by itself when it can.
    pub(super) busy: bool,
    /// Whether a caller left something for the task.
    pub(super) left: bool,
    /// The task's, while it has nothing to do.
    pub(super) idle: Option<Waker>,
    pub(super) running: bool,
    pub(super) closed: bool,
    spares: Vec<Vec<u8>>,
    /// How many operations whose callers gave up wait or are under way.
    abandoned: Arc<AtomicUsize>,
}

/// A batch that wasn't sent.
pub(super) struct Pending<R> {
    pub(super) bytes: Vec<u8>,
    pub(super) replies: Replies<R>,
    /// Whether what confirms it was appended, so that nothing else may be.
    sealed: bool,
    /// When its first caller came.
    pub(super) arrived: Instant,
}

/// The task's end of a batch: it fills in one reply after another. Dropped early, it fails the rest.
pub(super) struct Replies<R> {
    batch: Arc<Batch<R>>,
    /// How many commands the batch has.
    pub(super) expected: usize,
    /// The commands' words, each from a place on.
    words: Vec<(usize, &'static str)>,
    received: Vec<Reply<R>>,
    /// What becomes of those without a reply.
    fault: Fault,
    /// What decides over all of them, by the last reply.
    confirm: Option<Arc<Confirm<R>>>,
}

/// The callers' end.
#[derive(Debug)]
pub(super) struct Batch<R> {
    state: Mutex<State<R>>,
    /// The queue's count.
    abandoned: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum State<R> {
    Waiting {
        /// Those of callers, each at its command's place.
        wakers: Vec<Option<Waker>>,
        /// How many callers gave up.
        abandoned: usize,
    },
    Done(Vec<Reply<R>>),
}

/// A caller that waits for a batch. Dropped before it is done, its operation counts as abandoned until the batch is.
pub(super) struct Caller<R> {
    batch: Option<Arc<Batch<R>>>,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            unanswered: 0,
            busy: false,
            left: false,
            idle: None,
            running: false,
            closed: false,
            spares: Vec::new(),
            abandoned: Arc::default(),
        }
    }
}

impl<R: Answer> Queue<R> {
    /// Appends one command, and returns its batch and its place there.
    pub(super) fn push(&mut self, command: &impl Command) -> (Arc<Batch<R>>, usize) {
        if self.waiting.back().is_none_or(Pending::is_full) {
            let state = State::Waiting { wakers: Vec::new(), abandoned: 0 };
            let batch = Arc::new(Batch { state: Mutex::new(state), abandoned: self.abandoned.clone() });
            let fault = Fault::unreachable("the connection's task ended");
            let replies = Replies { batch, expected: 0, words: Vec::new(), received: Vec::new(), fault, confirm: None };
            let bytes = self.spares.pop().unwrap_or_default();
            self.waiting.push_back(Pending { bytes, replies, sealed: false, arrived: Instant::now() });
        }
        let pending = self.waiting.back_mut().expect("a batch with room was just pushed");
        command.write(&mut pending.bytes);
        (pending.replies.batch.clone(), pending.replies.expect(command.word()))
    }

    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn front(&self) -> Option<&Pending<R>> {
        self.waiting.front()
    }

    /// Says whether the oldest batch is worth a write: the less the server has to do still, the sooner, so that neither side
    /// stands still until the other has finished.
    pub(super) fn is_due(&self) -> bool {
        let part = LEAST.max(self.unanswered.div_ceil(PART));
        self.waiting.len() > 1 || self.front().is_some_and(|front| front.replies.expected >= part || front.is_full())
    }

    /// Takes the oldest batch.
    pub(super) fn pop(&mut self) -> Option<Pending<R>> {
        self.waiting.pop_front()
    }

    /// Puts a batch of which nothing was sent back in its place.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>, replies: Replies<R>, arrived: Instant) {
        let sealed = replies.confirm.is_some();
        self.waiting.push_front(Pending { bytes, replies, sealed, arrived });
    }

    pub(super) fn drain(&mut self) -> VecDeque<Pending<R>> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES && bytes.capacity() <= 2 * MOST_BYTES {
            bytes.clear();
            self.spares.push(bytes);
        }
    }
}

impl<R> Pending<R> {
    /// Says whether this takes no more.
    fn is_full(&self) -> bool {
        self.sealed || self.replies.expected >= MOST_COMMANDS || self.bytes.len() >= MOST_BYTES
    }

    /// Appends what confirms the batch, once.
    pub(super) fn seal(&mut self, confirm: &Arc<Confirm<R>>) {
        if !std::mem::replace(&mut self.sealed, true) {
            self.bytes.extend_from_slice(&confirm.command.bytes);
            self.replies.expect(confirm.command.word);
            self.replies.confirm = Some(confirm.clone());
        }
    }
}

impl<R> Replies<R> {
    /// Expects one more reply, to this command, and returns its place.
    pub(super) fn expect(&mut self, word: &'static str) -> usize {
        if self.words.last().is_none_or(|(_, last)| *last != word) {
            self.words.push((self.expected, word));
        }
        self.expected += 1;
        self.expected - 1
    }

    /// The word of the command whose reply comes next.
    pub(super) fn word(&self) -> &'static str {
        let place = self.received.len();
        self.words.iter().rev().find(|(from, _)| *from <= place).map_or("a command", |(_, word)| word)
    }

    /// Takes the next reply, and says whether it was the last.
    pub(super) fn receive(&mut self, reply: Reply<R>) -> bool {
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

impl<R> Drop for Replies<R> {
    fn drop(&mut self) {
        let mut replies = std::mem::take(&mut self.received);
        while replies.len() < self.expected {
            replies.push(Err(self.fault.clone()));
        }
        if let Some(confirm) = &self.confirm {
            let confirmed = match replies.pop() {
                Some(Ok(last)) => (confirm.check)(&last),
                Some(Err(fault)) => Err(fault.sent()),
                None => Ok(()),
            };
            if let Err(fault) = confirmed {
                replies.iter_mut().filter(|reply| reply.is_ok()).for_each(|reply| *reply = Err(fault.clone()));
            }
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

impl<R> Caller<R> {
    pub(super) fn new(batch: Arc<Batch<R>>) -> Self {
        Self { batch: Some(batch) }
    }

    pub(super) fn finish(mut self) {
        self.batch = None;
    }
}

impl<R> Drop for Caller<R> {
    fn drop(&mut self) {
        let Some(batch) = &self.batch else { return };
        if let State::Waiting { abandoned, .. } = &mut *lock(&batch.state) {
            *abandoned += 1;
            batch.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<R: Clone> Batch<R> {
    /// Waits for one reply.
    pub(super) fn poll_one(&self, place: usize, cx: &mut Context<'_>) -> Poll<Reply<R>> {
        match &mut *lock(&self.state) {
            State::Done(replies) => Poll::Ready(replies[place].clone()),
            State::Waiting { wakers, .. } => {
                wait(wakers, place, cx);
                Poll::Pending
            }
        }
    }

    /// Waits for the replies of one caller, which all come at once.
    pub(super) fn poll_range(&self, places: Range<usize>, cx: &mut Context<'_>) -> Poll<Vec<Reply<R>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Ask;

    impl Command for Ask {
        fn word(&self) -> &'static str {
            "ASK"
        }

        fn write(&self, out: &mut Vec<u8>) {
            out.push(b'?');
        }
    }

    /// Pushes until something is due, and returns how many that took.
    fn due_after(queue: &mut Queue<u64>) -> usize {
        (1..=2 * MOST_COMMANDS)
            .find(|_| {
                queue.push(&Ask);
                queue.is_due()
            })
            .expect("a full batch is due at the latest")
    }

    #[test]
    fn a_batch_is_due_by_what_the_server_has_to_do() {
        for (unanswered, due) in [(0, 2), (1, 2), (8, 2), (9, 3), (16, 4), (400, 100), (4_096, MOST_COMMANDS)] {
            let mut queue = Queue { unanswered, ..Queue::default() };
            assert_eq!(due_after(&mut queue), due, "{unanswered}");
        }
    }

    #[test]
    fn what_cant_go_out_yet_grows_to_a_full_batch_and_then_another() {
        let mut queue = Queue::<u64>::default();
        let (first, _) = queue.push(&Ask);
        for place in 1..MOST_COMMANDS {
            let (batch, at) = queue.push(&Ask);
            assert!(Arc::ptr_eq(&batch, &first));
            assert_eq!(at, place);
        }
        let (second, at) = queue.push(&Ask);
        assert!(!Arc::ptr_eq(&second, &first));
        assert_eq!(at, 0);
        assert_eq!(queue.pop().map(|pending| pending.replies.expected), Some(MOST_COMMANDS));
        assert!(!queue.is_due());
    }
}
