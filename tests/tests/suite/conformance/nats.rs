//! Private NATS servers behind a proxy, as subjects of the suite.

use std::marker::PhantomData;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use tidings::backend::Nats;
use tidings::conformance::{Counts, Network, Subject, Tap, Topics};
use tidings_tests::harness::{self, Cut, Direction, NatsKind, NatsOptions, Proxy, Refusal};

/// A kind of server, as a type.
pub(crate) trait Which: Send + Sync + 'static {
    const KIND: NatsKind;
}

macro_rules! kinds {
    ($($name:ident)+) => {
        $(
            pub(crate) struct $name;

            impl Which for $name {
                const KIND: NatsKind = NatsKind::$name;
            }
        )+
    };
}

kinds!(Nats210 Nats215);

/// A server that the backend reaches over a proxy, and the suite past it.
pub(crate) struct NatsServer<W> {
    server: harness::Nats,
    proxy: Proxy,
    which: PhantomData<fn() -> W>,
}

/// Another client's subscription.
pub(crate) struct ClientTap {
    subscriber: async_nats::Subscriber,
    _client: async_nats::Client,
}

impl<W: Which> NatsServer<W> {
    /// Another client, past the proxy.
    async fn past(&self) -> async_nats::Client {
        let options = ConnectOptions::new().name("tap");
        options.connect(self.server.url()).await.expect("the server listens")
    }
}

/// Returns when the server has taken everything that the client sent before.
async fn settle(client: &async_nats::Client) {
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await.expect("the client is connected");
    client.publish(inbox, "".into()).await.expect("the client is connected");
    echo.next().await.expect("the client is connected");
}

impl Tap for ClientTap {
    async fn next(&mut self) -> Vec<u8> {
        self.subscriber.next().await.expect("the tap is connected").payload.to_vec()
    }
}

impl<W: Which> Subject for NatsServer<W> {
    type Backend = Nats;

    async fn start() -> Self {
        let server = harness::Nats::start(W::KIND, NatsOptions::default()).await;
        let proxy = Proxy::start(server.port()).await;
        Self { server, proxy, which: PhantomData }
    }

    fn backend(&self) -> Nats {
        Nats::new(format!("nats://{}", self.proxy.address())).expect("the proxy's address is good")
    }

    async fn interrupt(&self) {
        self.proxy.cut(Cut::Reset).await;
    }

    async fn refuse(&self, refuse: bool) {
        self.proxy.refuse(if refuse { Refusal::StopListening } else { Refusal::Off }).await;
        if refuse {
            self.proxy.cut(Cut::Reset).await;
        }
    }
}

impl<W: Which> Topics for NatsServer<W> {
    type Tap = ClientTap;

    const COUNTS: Counts = Counts::Nothing;

    async fn publish_raw(&self, channel: &str, payload: &[u8]) {
        let client = self.past().await;
        client.publish(channel.to_owned(), payload.to_vec().into()).await.expect("the client is connected");
        settle(&client).await;
    }

    async fn tap(&self, channel: &str) -> ClientTap {
        let client = self.past().await;
        let subscriber = client.subscribe(channel.to_owned()).await.expect("the client is connected");
        settle(&client).await;
        ClientTap { subscriber, _client: client }
    }
}

impl<W: Which> Network for NatsServer<W> {
    async fn silence(&self, silent: bool) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.proxy.stall(direction, silent);
        }
        if !silent {
            self.proxy.cut(Cut::Reset).await;
        }
    }

    async fn lose_replies(&self, lose: bool) {
        if !lose {
            self.proxy.cut(Cut::Reset).await;
        }
        self.proxy.drop_replies(lose);
    }

    async fn subscribed_connections(&self) -> usize {
        let listed = self.server.monitor("/connz").await;
        let connections = listed["connections"].as_array().cloned().unwrap_or_default();
        let holds = |one: &serde_json::Value| one["name"] != "tap" && one["subscriptions"].as_u64() > Some(0);
        connections.iter().filter(|one| holds(one)).count()
    }
}
