//! Publishing: what many callers have waiting at once goes out as one write.

mod batch;
mod session;

use std::sync::{Arc, Mutex};

use super::fault::Fault;
use super::link::Reply;
use super::settings::Settings;
use super::url::Endpoint;
use crate::broker::lock;
use crate::capability::{Host, Outgoing};
use crate::error::{ErrorKind, Outcome};

use batch::{Caller, Queue};
use session::Task;

/// One node's publishing connection, opened by the first publish. Dropping it closes the connection.
pub(super) struct Publisher {
    host: Host,
    shared: Arc<Shared>,
}

struct Shared {
    settings: Arc<Settings>,
    endpoint: Endpoint,
    /// `PUBLISH` or `SPUBLISH`.
    word: &'static str,
    queue: Mutex<Queue>,
}

impl Publisher {
    pub(super) fn new(host: Host, settings: Arc<Settings>, endpoint: Endpoint, word: &'static str) -> Self {
        Self { host, shared: Arc::new(Shared { settings, endpoint, word, queue: Mutex::default() }) }
    }

    /// Publishes one message. A caller that stops waiting harms no other; its message goes out nevertheless. At most as
    /// many such are kept as there may be operations.
    pub(super) async fn publish(&self, message: &Outgoing) -> Reply {
        let (batch, place) = self.append(|queue, word| queue.push(word, message))?;
        let caller = Caller::new(batch.clone());
        let reply = std::future::poll_fn(|cx| batch.poll_one(place, cx)).await;
        caller.finish();
        reply
    }

    /// Publishes several messages, one after another.
    pub(super) async fn publish_all<'a>(&self, messages: impl Iterator<Item = &'a Outgoing>) -> Vec<Reply> {
        let mut count = 0;
        let appended = self.append(|queue, word| {
            let mut runs: Vec<(_, std::ops::Range<usize>)> = Vec::new();
            for message in messages {
                count += 1;
                let (batch, place) = queue.push(word, message);
                match runs.last_mut() {
                    Some((last, places)) if Arc::ptr_eq(last, &batch) => places.end = place + 1,
                    _ => runs.push((batch, place..place + 1)),
                }
            }
            runs
        });
        let runs = match appended {
            Ok(runs) => runs,
            Err(fault) => return vec![Err(fault); count],
        };
        // The last batch is the last to be done.
        let caller = runs.last().map(|(last, _)| Caller::new(last.clone()));
        let mut replies = Vec::with_capacity(count);
        for (batch, places) in runs {
            replies.extend(std::future::poll_fn(|cx| batch.poll_range(places.clone(), cx)).await);
        }
        if let Some(caller) = caller {
            caller.finish();
        }
        replies
    }

    /// Appends to the queue, and sees to it that the task runs.
    fn append<T>(&self, append: impl FnOnce(&mut Queue, &'static str) -> T) -> Result<T, Fault> {
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        if queue.abandoned() >= self.host.limits().operations {
            let text = "as many publishes as `operations` were given up by their callers and wait for the server still";
            return Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text));
        }
        let appended = append(&mut queue, self.shared.word);
        let idle = queue.idle.take();
        let start = !std::mem::replace(&mut queue.running, true);
        drop(queue);
        if start {
            let task = Task::new(self.host.clone(), self.shared.clone());
            self.host.spawn("redis publisher", task.run());
        }
        if let Some(idle) = idle {
            idle.wake();
        }
        Ok(appended)
    }

    /// Closes the connection; what waits fails.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        let idle = queue.idle.take();
        drop(queue);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.close();
    }
}
