//! The bounded buffer between a backend and one subscription.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::broker::lock;
use crate::error::Cause;

/// The backend's end of a subscription: messages go in, and at last a cause.
///
/// It is bounded in messages and bytes. A push that doesn't fit ends it with `Overflow`, one that is larger than the
/// subscription takes with `TooLarge`; neither waits, so a slow subscription slows nobody.
#[derive(Clone, Debug)]
pub struct Feed {
    shared: Arc<Shared>,
}

/// The subscription behind a feed takes nothing more: let it go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription has ended")]
pub struct FeedEnded;

/// The subscription's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedLimits {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) one: usize,
    /// Whether each message keeps its channel, for subscriptions over several keys.
    pub(crate) keyed: bool,
}

#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) channel: Option<Arc<str>>,
    pub(crate) payload: Bytes,
}

/// Why a subscription ended, with what the backend said of it.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    pub(crate) detail: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    limits: FeedLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Incoming>,
    bytes: usize,
    ending: Option<Ending>,
    waker: Option<Waker>,
}

pub(crate) fn feed(limits: FeedLimits) -> (Feed, Inbox) {
    let shared = Arc::new(Shared { limits, state: Mutex::default() });
    (Feed { shared: shared.clone() }, Inbox { shared })
}

impl Feed {
    /// Hands over one message and the channel that it came on.
    ///
    /// # Errors
    ///
    /// [`FeedEnded`] when the subscription had ended or this message ended it.
    pub fn push(&self, channel: &Arc<str>, payload: Bytes) -> Result<(), FeedEnded> {
        let limits = &self.shared.limits;
        let mut state = lock(&self.shared.state);
        if state.ending.is_some() {
            return Err(FeedEnded);
        }
        let cause = if payload.len() > limits.one {
            let detail = format!("a payload of {} bytes is over `receive_bytes`, {}", payload.len(), limits.one);
            Some((Cause::TooLarge, detail))
        } else if state.queue.len() >= limits.messages {
            Some((
                Cause::Overflow,
                format!("`buffer_messages`, {}, was reached; receive faster or raise it", limits.messages),
            ))
        } else if state.bytes + payload.len() > limits.bytes {
            Some((
                Cause::Overflow,
                format!("`buffer_bytes`, {}, was reached; receive faster or raise it", limits.bytes),
            ))
        } else {
            None
        };
        let pushed = if let Some((cause, detail)) = cause {
            state.ending = Some(Ending { cause, detail: Some(detail.into()) });
            Err(FeedEnded)
        } else {
            state.bytes += payload.len();
            state.queue.push_back(Incoming { channel: limits.keyed.then(|| channel.clone()), payload });
            Ok(())
        };
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        pushed
    }

    /// Ends the subscription after what it has buffered. The first cause sticks.
    pub fn end(&self, cause: Cause) {
        self.end_because(cause, None);
    }

    /// Ends the subscription like [`end`](Self::end), with a text that says more, such as the client's own error.
    ///
    /// It must hold no payload, key or credential.
    pub fn end_with(&self, cause: Cause, detail: impl Into<Arc<str>>) {
        self.end_because(cause, Some(detail.into()));
    }

    fn end_because(&self, cause: Cause, detail: Option<Arc<str>>) {
        let mut state = lock(&self.shared.state);
        if state.ending.is_none() {
            state.ending = Some(Ending { cause, detail });
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Says whether the subscription takes nothing more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        lock(&self.shared.state).ending.is_some()
    }
}

impl Inbox {
    /// Takes the next message, or the ending once all messages before it are taken.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Incoming, Ending>> {
        let mut state = lock(&self.shared.state);
        if let Some(incoming) = state.queue.pop_front() {
            state.bytes -= incoming.payload.len();
            return Poll::Ready(Ok(incoming));
        }
        if let Some(ending) = &state.ending {
            return Poll::Ready(Err(ending.clone()));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.ending.get_or_insert(Ending { cause: Cause::Closed, detail: None });
        // What nobody will take is freed now, though the backend may hold its end a while longer.
        let queue = std::mem::take(&mut state.queue);
        state.bytes = 0;
        drop(state);
        drop(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(messages: usize, bytes: usize, one: usize) -> (Feed, Inbox) {
        feed(FeedLimits { messages, bytes, one, keyed: false })
    }

    fn take(inbox: &Inbox) -> Option<Result<Bytes, Cause>> {
        match inbox.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(incoming)) => Some(Ok(incoming.payload)),
            Poll::Ready(Err(ending)) => Some(Err(ending.cause)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_fits_is_taken_before_the_cause_and_the_first_cause_sticks() {
        let channel: Arc<str> = "c".into();
        for (messages, bytes) in [(2, 100), (100, 2)] {
            let (feed, inbox) = bounded(messages, bytes, 1);
            assert_eq!(take(&inbox), None);
            feed.push(&channel, Bytes::from_static(b"a")).unwrap();
            feed.push(&channel, Bytes::from_static(b"b")).unwrap();
            assert_eq!(feed.push(&channel, Bytes::from_static(b"c")), Err(FeedEnded));
            feed.end(Cause::Disconnected);
            assert_eq!(take(&inbox), Some(Ok(Bytes::from_static(b"a"))));
            assert_eq!(take(&inbox), Some(Ok(Bytes::from_static(b"b"))));
            assert_eq!(take(&inbox), Some(Err(Cause::Overflow)));
            assert_eq!(take(&inbox), Some(Err(Cause::Overflow)));
        }
        let (feed, inbox) = bounded(10, 10, 1);
        assert_eq!(feed.push(&channel, Bytes::from_static(b"ab")), Err(FeedEnded));
        assert_eq!(take(&inbox), Some(Err(Cause::TooLarge)));
        drop(inbox);
        assert!(feed.is_ended());
    }

    #[test]
    fn room_comes_back_as_messages_are_taken() {
        let channel: Arc<str> = "c".into();
        let (feed, inbox) = bounded(1, 1, 1);
        for _ in 0..1_000 {
            feed.push(&channel, Bytes::from_static(b"a")).unwrap();
            assert!(matches!(take(&inbox), Some(Ok(_))));
        }
    }
}
