//! Those who wait for replies.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::super::fault::Fault;
use super::super::wire::Message;
use super::Line;
use super::batch::Caller;
use crate::broker::lock;

/// By which the server knows the connection's subscription to all replies; who listens for itself has this and its token.
pub(in super::super) const SHARED_SID: u64 = 1;

/// Everyone who waits for replies over one connection, by the last token of the subject that they come to.
#[derive(Debug, Default)]
pub(super) struct Requests {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    /// How many were sent.
    sent: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    sent: bool,
    /// As many as the request asked for at most.
    replies: VecDeque<Message>,
    failed: Option<Fault>,
    waker: Option<Waker>,
}

impl Requests {
    pub(super) fn add(&mut self) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, Waiting::default());
        self.last
    }

    pub(super) fn remove(&mut self, token: u64) {
        if self.waiting.remove(&token).is_some_and(|waiting| waiting.sent) {
            self.sent -= 1;
        }
    }

    /// Whether someone's request is with the server.
    pub(super) fn any_sent(&self) -> bool {
        self.sent > 0
    }

    /// Takes note that something of it is sent, and says whether it is the first.
    pub(super) fn launched(&mut self, token: u64) -> bool {
        let is_first = |waiting: &mut Waiting| !std::mem::replace(&mut waiting.sent, true);
        let is_first = self.waiting.get_mut(&token).is_some_and(is_first);
        self.sent += usize::from(is_first);
        is_first
    }

    /// Takes note that nothing of it was sent after all.
    pub(super) fn put_back(&mut self, token: u64) {
        if let Some(waiting) = self.waiting.get_mut(&token)
            && std::mem::replace(&mut waiting.sent, false)
        {
            self.sent -= 1;
        }
    }

    /// Hands a message to who waits for it, and returns the token.
    pub(super) fn receive(&mut self, message: Message) -> Option<u64> {
        let token = if message.sid == SHARED_SID {
            let token = message.subject.rsplit(|byte| *byte == b'.').next();
            token.and_then(|token| std::str::from_utf8(token).ok()?.parse().ok())
        } else {
            message.sid.checked_sub(SHARED_SID)
        };
        if let Some(waiting) = token.and_then(|token: u64| self.waiting.get_mut(&token)) {
            waiting.replies.push_back(message);
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
        token
    }

    pub(super) fn fail(&mut self, token: u64, fault: &Fault) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            waiting.fail(fault);
        }
    }

    /// Fails everyone whose request is with a server that can't answer any more.
    pub(super) fn fail_sent(&mut self, fault: &Fault) {
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.sent) {
            waiting.fail(fault);
        }
    }
}

impl Requests {
    /// Waits for the next reply. Those that came before the connection broke are returned first.
    pub(super) fn poll(&mut self, token: u64, cx: &mut Context<'_>) -> Poll<Result<Message, Fault>> {
        let Some(waiting) = self.waiting.get_mut(&token) else { return Poll::Ready(Err(Fault::task_ended())) };
        if let Some(message) = waiting.replies.pop_front() {
            return Poll::Ready(Ok(message));
        }
        if let Some(fault) = &waiting.failed {
            return Poll::Ready(Err(fault.clone()));
        }
        match &mut waiting.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Waiting {
    fn fail(&mut self, fault: &Fault) {
        self.failed.get_or_insert_with(|| fault.clone());
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A request on its way, and its replies. Dropped, it waits for none.
pub(in super::super) struct Request {
    requests: Arc<Mutex<Requests>>,
    token: u64,
    caller: Option<Caller>,
}

impl Request {
    pub(super) fn new(requests: Arc<Mutex<Requests>>, token: u64, caller: Caller) -> Self {
        Self { requests, token, caller: Some(caller) }
    }

    /// Waits for the reply.
    pub(in super::super) async fn reply(&mut self) -> Result<Message, Fault> {
        let reply = std::future::poll_fn(|cx| lock(&self.requests).poll(self.token, cx)).await;
        if let Some(caller) = self.caller.take() {
            caller.finish();
        }
        reply
    }

    /// Whether any of it may be with the server.
    pub(in super::super) fn was_sent(&self) -> bool {
        lock(&self.requests).waiting.get(&self.token).is_some_and(|waiting| waiting.sent)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        lock(&self.requests).remove(self.token);
    }
}

/// Subjects that are listened to on one connection, one for each request. Dropped, they are let go.
pub(in super::super) struct Listening {
    line: Line,
    token: u64,
    /// All of them, less the last token.
    subject: String,
    /// How many requests were sent, which is the last one's token.
    sent: u64,
}

impl Listening {
    pub(super) fn new(line: Line, token: u64, subject: String) -> Self {
        Self { line, token, subject, sent: 0 }
    }

    /// Sends a request that is answered here.
    pub(in super::super) fn send(&mut self, to: &str, payload: &[u8]) -> Result<(), Fault> {
        self.sent += 1;
        let reply = format!("{}.{}", self.subject, self.sent);
        self.line.append(|queue| queue.request(to, &reply, self.token, &[], payload)).map(|_| ())
    }

    /// Whether a message under a subject of these is about the last request.
    pub(in super::super) fn is_of_last(&self, message: &Message) -> bool {
        let token = message.subject.rsplit(|byte| *byte == b'.').next();
        token == Some(self.sent.to_string().as_bytes())
    }

    /// Waits for the next message. Those that came before the connection broke are returned first.
    pub(in super::super) async fn next(&mut self) -> Result<Message, Fault> {
        std::future::poll_fn(|cx| lock(&self.line.shared.requests).poll(self.token, cx)).await
    }

    /// Whether its connection is still there.
    pub(in super::super) fn is_open(&self) -> bool {
        lock(&self.line.shared.requests).waiting.get(&self.token).is_some_and(|waiting| waiting.failed.is_none())
    }

    /// Whether the last request waits at the server as far as is known: neither has its connection broken, nor was it
    /// answered that it is over.
    pub(in super::super) fn waits(&self) -> bool {
        let is_over = |message: &Message| message.status().is_some_and(|(status, _)| status != 100);
        let requests = lock(&self.line.shared.requests);
        let waiting = requests.waiting.get(&self.token);
        waiting.is_some_and(|waiting| waiting.failed.is_none() && !waiting.replies.iter().any(is_over))
    }

    /// Has the server send nothing more here.
    pub(in super::super) fn hush(&self) {
        self.line.post(|queue| queue.leave(self.token));
    }

    /// Sends what isn't answered, where there is a connection.
    pub(in super::super) fn post(&self, to: &str) {
        self.line.post(|queue| drop(queue.publish(to, &[])));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.line.shared.requests).remove(self.token);
        self.hush();
    }
}
