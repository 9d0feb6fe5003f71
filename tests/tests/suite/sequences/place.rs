//! Where a sequence is played.

use std::time::Duration;

use tidings::backend::{Memory, Redis};
use tidings::capability::{AckGroups, Dedup, PubSub};
use tidings::{Broker, Config, Limits, Namespace};
use tidings_tests::harness::{Kind, RedisOptions, Server};
use tokio::time::sleep;

pub(super) trait Place: Sized + Send + Sync + 'static {
    type Backend: PubSub + AckGroups + Dedup;

    fn backend(&self) -> Self::Backend;

    /// Takes the system away and brings it back with what it had.
    async fn restart(&mut self);

    fn broker(&self) -> Broker<Self::Backend> {
        self.broker_in("test")
    }

    fn broker_in(&self, environment: &str) -> Broker<Self::Backend> {
        let namespace = Namespace::new("sequences", environment).unwrap();
        let limits = Limits::default().buffer_messages(8_192).subscriptions(1_024);
        Broker::new(self.backend(), Config::new(namespace).limits(limits)).unwrap()
    }
}

pub(super) struct InProcess(Memory);

impl InProcess {
    pub(super) fn start() -> Self {
        Self(Memory::new())
    }
}

impl Place for InProcess {
    type Backend = Memory;

    fn backend(&self) -> Memory {
        self.0.clone()
    }

    async fn restart(&mut self) {
        self.0.refuse(true);
        self.0.disconnect();
        sleep(Duration::from_millis(50)).await;
        self.0.refuse(false);
    }
}

/// A server that loses nothing that it has confirmed.
pub(super) struct OnServer(Server);

impl OnServer {
    pub(super) async fn start(kind: Kind) -> Self {
        Self(Server::start(kind, RedisOptions::default().config("appendfsync always")).await)
    }
}

impl Place for OnServer {
    type Backend = Redis;

    fn backend(&self) -> Redis {
        Redis::new(self.0.url()).unwrap()
    }

    async fn restart(&mut self) {
        self.0.kill();
        self.0.restart().await;
    }
}
