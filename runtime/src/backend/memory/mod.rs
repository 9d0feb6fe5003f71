//! Topics within one process.

mod hub;

use std::sync::{Arc, Mutex};

use crate::broker::lock;
use crate::capability::{
    Backend, BackendError, Checked, Feed, Host, Outgoing, PatternPubSub, PubSub, Unsubscribe, Wanted,
};
use crate::error::{Cause, ErrorKind, Outcome};

use hub::Hub;

/// Topics within one process: no server, no tasks, no global state.
///
/// Brokers built from clones of one value share it and hear each other; two values never meet. Publishes through one
/// value have one total order, which every subscription sees. For tests of a service's own behaviour under faults it
/// can lose every subscription ([`disconnect`](Self::disconnect)) and be out of reach ([`refuse`](Self::refuse)).
#[derive(Clone, Debug, Default)]
pub struct Memory {
    hub: Arc<Mutex<Hub>>,
}

impl Memory {
    /// Makes a system of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every subscription of every broker with `Disconnected`, as a lost connection does.
    pub fn disconnect(&self) {
        let feeds = lock(&self.hub).clear();
        for feed in feeds {
            feed.end_with(Cause::Disconnected, "`Memory::disconnect` was called");
        }
    }

    /// Refuses every publish and subscribe with `Unavailable` until called with `false`.
    pub fn refuse(&self, refuse: bool) {
        lock(&self.hub).refuse = refuse;
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
    type Client = Self;

    fn system(&self) -> &'static str {
        "memory"
    }

    fn client(&self, _: Host) -> Result<Self, Vec<String>> {
        Ok(self.clone())
    }

    async fn check(client: &Self, _: Wanted) -> Result<Checked, BackendError> {
        lock(&client.hub).reachable()?;
        Ok(Checked::new(concat!("tidings memory ", env!("CARGO_PKG_VERSION"))))
    }

    async fn close(_: &Self) {}
}

impl PubSub for Memory {
    type Subscription = MemorySubscription;

    async fn publish(client: &Self, message: Outgoing) -> Result<Option<u64>, BackendError> {
        // Counts against the task's budget, so that a loop of publishes lets the receivers run.
        tokio::task::coop::consume_budget().await;
        lock(&client.hub).publish(message).map(Some)
    }

    async fn publish_all(client: &Self, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        let mut hub = lock(&client.hub);
        messages.into_iter().map(|message| hub.publish(message).map(Some)).collect()
    }

    async fn subscribe(client: &Self, channels: Vec<Arc<str>>, feed: Feed) -> Result<MemorySubscription, BackendError> {
        let id = lock(&client.hub).subscribe(channels, &feed)?;
        Ok(MemorySubscription { hub: client.hub.clone(), id })
    }
}

impl PatternPubSub for Memory {
    async fn subscribe_under(client: &Self, prefix: Arc<str>, feed: Feed) -> Result<MemorySubscription, BackendError> {
        let id = lock(&client.hub).subscribe_under(prefix, feed)?;
        Ok(MemorySubscription { hub: client.hub.clone(), id })
    }
}

fn unavailable() -> BackendError {
    BackendError::new(ErrorKind::Unavailable, Outcome::NotApplied).with_source("`Memory::refuse(true)` was called")
}
