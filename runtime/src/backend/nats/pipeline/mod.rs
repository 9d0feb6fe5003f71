//! Messages that many callers have waiting at once go out as one write, with one question for a sign of life behind
//! them, whose answer confirms that the server took them. Requests go the same way, and each gets its own replies; one
//! by itself is confirmed by its reply, and asks when that is late.

mod batch;
mod pace;
mod request;
mod session;

use std::sync::{Arc, Mutex};

use super::client::unique;
use super::fault::Fault;
use super::link::{Facts, Servers};
use super::settings::Settings;
use crate::broker::lock;
use crate::capability::{Host, Outgoing};
use crate::error::{ErrorKind, Outcome};

use batch::{Caller, Queue};
use request::Requests;
pub(super) use request::{Listening, Request};
use session::Task;

/// A connection, opened by the first message. Dropping it closes the connection.
pub(super) struct Pipeline {
    line: Line,
}

/// The way to the connection's task.
#[derive(Clone)]
struct Line {
    host: Host,
    shared: Arc<Shared>,
}

struct Shared {
    settings: Arc<Settings>,
    servers: Arc<Servers>,
    /// The task's name, which is the connection's too.
    name: &'static str,
    /// What replies come to, less the last token. Without it there are no requests.
    inbox: Option<String>,
    requests: Arc<Mutex<Requests>>,
    queue: Mutex<Queue>,
}

impl Pipeline {
    /// One that publishes.
    pub(super) fn new(host: Host, settings: Arc<Settings>, servers: Arc<Servers>, name: &'static str) -> Self {
        let shared = Shared { settings, servers, name, inbox: None, requests: Arc::default(), queue: Mutex::default() };
        Self { line: Line { host, shared: Arc::new(shared) } }
    }

    /// Takes replies, too.
    pub(super) fn with_replies(mut self) -> Self {
        let Line { host, shared } = &mut self.line;
        let inbox = format!("{}.{:016x}", shared.settings.inbox(), unique(host));
        if let Some(shared) = Arc::get_mut(shared) {
            shared.inbox = Some(inbox);
        }
        self
    }

    /// Publishes one message, and returns when a round trip has confirmed it. A caller that stops waiting harms no
    /// other; its message goes out nevertheless. At most as many such are kept as there may be operations.
    pub(super) async fn publish(&self, message: &Outgoing) -> Result<(), Fault> {
        let (batch, place) = self.line.append(|queue| queue.publish(&message.channel, &message.payload))?;
        let caller = Caller::new(batch.clone());
        let confirmed = std::future::poll_fn(|cx| batch.poll_one(place, cx)).await;
        caller.finish();
        confirmed
    }

    /// Publishes several messages, one after another.
    pub(super) async fn publish_all(&self, messages: &[Outgoing]) -> Vec<Result<(), Fault>> {
        let appended = self.line.append(|queue| {
            let mut runs: Vec<(_, std::ops::Range<usize>)> = Vec::new();
            for message in messages {
                let (batch, place) = queue.publish(&message.channel, &message.payload);
                match runs.last_mut() {
                    Some((last, places)) if Arc::ptr_eq(last, &batch) => places.end = place + 1,
                    _ => runs.push((batch, place..place + 1)),
                }
            }
            runs
        });
        let runs = match appended {
            Ok(runs) => runs,
            Err(fault) => return messages.iter().map(|_| Err(fault.clone())).collect(),
        };
        // The last batch is the last to be done.
        let caller = runs.last().map(|(last, _)| Caller::new(last.clone()));
        let mut confirmed = Vec::with_capacity(messages.len());
        for (batch, places) in runs {
            confirmed.extend(std::future::poll_fn(|cx| batch.poll_range(places.clone(), cx)).await);
        }
        if let Some(caller) = caller {
            caller.finish();
        }
        confirmed
    }

    /// Sends a request, behind those that were sent before. Its reply is asked of what this returns.
    pub(super) fn request(&self, subject: &str, head: &[u8], payload: &[u8]) -> Result<Request, Fault> {
        let Line { shared, .. } = &self.line;
        let token = shared.token()?;
        let reply = shared.reply_to(token);
        let appended = self.line.append(|queue| queue.request(subject, &reply, token, head, payload));
        match appended {
            Ok((batch, _)) => Ok(Request::new(shared.requests.clone(), token, Caller::new(batch))),
            Err(fault) => {
                lock(&shared.requests).remove(token);
                Err(fault)
            }
        }
    }

    /// Sends what isn't answered, where there is a connection.
    pub(super) fn post(&self, to: &[u8]) {
        if let Ok(to) = std::str::from_utf8(to) {
            self.line.post(|queue| drop(queue.publish(to, &[])));
        }
    }

    /// Listens to a subject of its own, for requests that are answered more than once and by messages that keep their
    /// own subjects.
    pub(super) fn listen(&self) -> Result<Listening, Fault> {
        let Line { shared, .. } = &self.line;
        let token = shared.token()?;
        let listening = Listening::new(self.line.clone(), token, shared.reply_to(token));
        self.line.append(|queue| queue.listen(&format!("{}.*", shared.reply_to(token)), token))?;
        Ok(listening)
    }

    /// Connects, unless that is done, and returns what the server says of itself.
    pub(super) async fn facts(&self) -> Result<Facts, Fault> {
        let (batch, place) = self.line.append(Queue::look)?;
        let caller = Caller::new(batch.clone());
        let confirmed = std::future::poll_fn(|cx| batch.poll_one(place, cx)).await;
        caller.finish();
        confirmed?;
        self.known().ok_or_else(|| Fault::unreachable("the connection broke"))
    }

    /// What the server of the connection there is says of itself.
    pub(super) fn known(&self) -> Option<Facts> {
        lock(&self.line.shared.queue).facts.clone()
    }

    /// Closes the connection; what waits fails.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.line.shared.queue);
        queue.closed = true;
        let idle = queue.idle.take();
        drop(queue);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Line {
    /// Appends to the queue, and sees to it that the task runs.
    fn append<T>(&self, append: impl FnOnce(&mut Queue) -> T) -> Result<T, Fault> {
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        if queue.abandoned() >= self.host.limits().operations {
            let text = "as many messages as `operations` were given up by their callers and wait for the server still";
            return Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text));
        }
        queue.requests.get_or_insert_with(|| self.shared.requests.clone());
        let appended = append(&mut queue);
        let idle = queue.idle.take();
        let start = !std::mem::replace(&mut queue.running, true);
        drop(queue);
        if start {
            let task = Task::new(self.host.clone(), self.shared.clone());
            self.host.spawn(self.shared.name, task.run());
        }
        if let Some(idle) = idle {
            idle.wake();
        }
        Ok(appended)
    }

    /// Sends what nobody waits for, where there is a connection.
    fn post(&self, append: impl FnOnce(&mut Queue)) {
        let mut queue = lock(&self.shared.queue);
        if queue.closed || queue.facts.is_none() {
            return;
        }
        append(&mut queue);
        let idle = queue.idle.take();
        drop(queue);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Shared {
    fn token(&self) -> Result<u64, Fault> {
        if self.inbox.is_none() {
            return Err(Fault::unreachable("the connection takes no replies"));
        }
        Ok(lock(&self.requests).add())
    }

    fn reply_to(&self, token: u64) -> String {
        format!("{}.{token}", self.inbox.as_deref().unwrap_or_default())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.close();
    }
}
