use std::future::poll_fn;

use super::{Counts, Subject, Tap};
use crate::backend::Memory;
use crate::capability::{Outgoing, PubSub};
use crate::topic::{FeedLimits, Inbox, feed};
use crate::{Broker, Config, Namespace};

/// [`Memory`] as a subject.
#[derive(Clone, Debug)]
pub struct InMemory {
    memory: Memory,
    /// A broker whose client goes past those under test.
    past: Broker<Memory>,
}

/// Hears one channel of [`InMemory`].
#[derive(Debug)]
pub struct InMemoryTap {
    inbox: Inbox,
    _held: <Memory as PubSub>::Subscription,
}

impl Subject for InMemory {
    type Backend = Memory;
    type Tap = InMemoryTap;

    const COUNTS: Counts = Counts::Subscriptions;
    const PAUSED: bool = true;

    async fn start() -> Self {
        let memory = Memory::new();
        let namespace = Namespace::new("conformance", "past").expect("a good namespace");
        let past = Broker::new(memory.clone(), Config::new(namespace)).expect("the defaults are good");
        Self { memory, past }
    }

    fn backend(&self) -> Memory {
        self.memory.clone()
    }

    async fn interrupt(&self) {
        self.memory.disconnect();
    }

    async fn refuse(&self, refuse: bool) {
        self.memory.refuse(refuse);
    }

    async fn publish_raw(&self, channel: &str, payload: &[u8]) {
        let message = Outgoing { channel: channel.to_owned(), payload: payload.to_vec().into() };
        Memory::publish(&self.past.inner.client, message).await.expect("the system is in reach");
    }

    async fn tap(&self, channel: &str) -> InMemoryTap {
        let (feed, inbox) = feed(FeedLimits { messages: 65_536, bytes: 64 << 20, one: 1 << 20, keyed: false });
        let held = Memory::subscribe(&self.past.inner.client, vec![channel.into()], feed)
            .await
            .expect("the system is in reach");
        InMemoryTap { inbox, _held: held }
    }
}

impl Tap for InMemoryTap {
    async fn next(&mut self) -> Vec<u8> {
        poll_fn(|cx| self.inbox.poll(cx)).await.expect("the tap is not interrupted").payload.to_vec()
    }
}
