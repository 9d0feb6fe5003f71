//! Topics and streams within one process.

mod commit;
mod cursor;
mod group;
mod hub;
mod log;
mod member;
mod stream;
mod unit;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::broker::lock;
use crate::capability::{
    Backend, BackendError, Checked, Feed, Host, Outgoing, PatternPubSub, PubSub, Unsubscribe, Wanted,
};
use crate::error::{Cause, ErrorKind, Outcome};

use hub::Hub;
use log::Logs;

/// Topics and streams within one process: no server, no tasks, no global state. What is in a stream is gone with the
/// last clone of the value and the brokers built from it.
///
/// Brokers built from clones of one value share it and hear each other; two values never meet. Publishes through one
/// value have one total order, which every subscription sees. For tests of a service's own behaviour under faults it
/// can lose every subscription ([`disconnect`](Self::disconnect)) and be out of reach ([`refuse`](Self::refuse)).
#[derive(Clone, Debug, Default)]
pub struct Memory {
    hub: Arc<Mutex<Hub>>,
    logs: Arc<Mutex<Logs>>,
    /// What `refuse` was called with last.
    refused: Arc<AtomicBool>,
    /// Counts the calls of `disconnect`.
    connections: Arc<AtomicU64>,
    /// Counts the members of commit groups.
    members: Arc<AtomicU64>,
}

/// One broker's use of a [`Memory`].
#[derive(Clone, Debug)]
pub struct MemoryClient {
    memory: Memory,
    host: Host,
    joined: Arc<Mutex<member::Joined>>,
}

impl Memory {
    /// Makes a system of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every subscription of every broker with `Disconnected`, and fails every read that waits with `Unavailable`,
    /// as a lost connection does.
    pub fn disconnect(&self) {
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.wake_readers();
        let feeds = lock(&self.hub).clear();
        for feed in feeds {
            feed.end_with(Cause::Disconnected, "`Memory::disconnect` was called");
        }
    }

    /// Refuses every operation with `Unavailable` until called with `false`.
    pub fn refuse(&self, refuse: bool) {
        lock(&self.hub).refuse = refuse;
        self.refused.store(refuse, Ordering::Release);
        self.wake_readers();
    }

    fn wake_readers(&self) {
        let logs: Vec<_> = lock(&self.logs).values().cloned().collect();
        for log in logs {
            log.changed.notify_waiters();
        }
    }
}

/// Holds a subscription of [`Memory`].
#[derive(Debug)]
pub struct MemorySubscription {
    hub: Arc<Mutex<Hub>>,
    id: u64,
}

impl Unsubscribe for MemorySubscription {
    async fn close(self) {}
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        let removed = lock(&self.hub).remove(self.id);
        drop(removed);
    }
}

impl Backend for Memory {
    type Client = MemoryClient;

    fn system(&self) -> &'static str {
        "memory"
    }

    fn client(&self, host: Host) -> Result<MemoryClient, Vec<String>> {
        Ok(MemoryClient { memory: self.clone(), host, joined: Arc::default() })
    }

    async fn check(client: &MemoryClient, _: Wanted) -> Result<Checked, BackendError> {
        lock(&client.memory.hub).reachable()?;
        Ok(Checked::new(concat!("tidings memory ", env!("CARGO_PKG_VERSION"))))
    }

    async fn close(client: &MemoryClient) {
        member::leave_all(&client.joined);
    }
}

impl PubSub for Memory {
    type Subscription = MemorySubscription;

    async fn publish(client: &MemoryClient, message: Outgoing) -> Result<Option<u64>, BackendError> {
        // Counts against the task's budget, so that a loop of publishes lets the receivers run.
        tokio::task::coop::consume_budget().await;
        lock(&client.memory.hub).publish(message).map(Some)
    }

    async fn publish_all(client: &MemoryClient, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        let mut hub = lock(&client.memory.hub);
        messages.into_iter().map(|message| hub.publish(message).map(Some)).collect()
    }

    async fn subscribe(
        client: &MemoryClient,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<MemorySubscription, BackendError> {
        let id = lock(&client.memory.hub).subscribe(channels, &feed)?;
        Ok(MemorySubscription { hub: client.memory.hub.clone(), id })
    }
}

impl PatternPubSub for Memory {
    async fn subscribe_under(
        client: &MemoryClient,
        prefix: Arc<str>,
        feed: Feed,
    ) -> Result<MemorySubscription, BackendError> {
        let id = lock(&client.memory.hub).subscribe_under(prefix, feed)?;
        Ok(MemorySubscription { hub: client.memory.hub.clone(), id })
    }
}

fn unavailable() -> BackendError {
    BackendError::new(ErrorKind::Unavailable, Outcome::NotApplied).with_source("`Memory::refuse(true)` was called")
}
