//! Private NATS servers behind a proxy, as subjects of the suite.

use std::marker::PhantomData;

use async_nats::{ConnectOptions, HeaderMap, jetstream};
use futures_util::StreamExt as _;
use tidings::backend::Nats;
use tidings::conformance::{Counts, Network, Raw, Streams, Subject, Tap, Topics};
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
    /// The server hands on what each connection sends by itself: its documentation promises the order of a publisher alone.
    const ONE_ORDER: bool = false;

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

/// JetStream has no dots in names.
fn name(stream: &str) -> String {
    stream.replace('.', "_")
}

/// By CloudEvents' NATS binding.
fn encoded(value: &[u8]) -> String {
    let letter = |byte: &u8| match byte {
        b'"' | b'%' => format!("%{byte:02X}"),
        b'!'..=b'~' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.iter().map(letter).collect()
}

fn decoded(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).expect("two digits follow"));
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    bytes
}

impl<W: Which> Streams for NatsServer<W> {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [tidings::Storage] = &[tidings::Storage::File, tidings::Storage::Memory];
    const UPDATES: bool = true;
    const PARTITIONS: u32 = 1;
    /// 2.10 takes the attempt back, and was seen to: of 34 in flight 16 had arrived, and the others' next attempt was the
    /// first. 2.15 leaves it counted.
    const COUNTS_UNARRIVED: bool = !matches!(W::KIND, NatsKind::Nats210);

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        assert_eq!(partition, 0, "there is one");
        let context = jetstream::new(self.past().await);
        let mut headers = HeaderMap::new();
        for (name, value) in record.attributes {
            headers.append(format!("ce-{name}"), encoded(&value));
        }
        let published = context.publish_with_headers(stream.to_owned(), headers, record.data.into()).await;
        published.expect("the client is connected").await.expect("the stream takes it");
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        assert_eq!(partition, 0, "there is one");
        let context = jetstream::new(self.past().await);
        let there = context.get_stream(name(stream)).await.expect("the stream is there");
        let state = &there.cached_info().state;
        let mut records = Vec::new();
        for sequence in state.first_sequence..=state.last_sequence {
            let message = there.get_raw_message(sequence).await.expect("the message is there");
            let mut raw = Raw::new(message.payload.to_vec());
            for (header, values) in message.headers.iter() {
                let header = header.to_string();
                assert_eq!(values.len(), 1, "`{header}` is there once");
                let value = values[0].to_string();
                match &*header {
                    "Nats-Expected-Stream" => assert_eq!(value, name(stream)),
                    // It is the id, which is there as an attribute, too.
                    "Nats-Msg-Id" => assert_eq!(message.headers.get("ce-id").map(ToString::to_string), Some(value)),
                    _ => {
                        let attribute = header.strip_prefix("ce-").unwrap_or(&header).to_owned();
                        raw.attributes.insert(attribute, decoded(&value));
                    }
                }
            }
            let key = raw.attributes.get("partitionkey").map(|key| String::from_utf8_lossy(key).into_owned());
            let own = message.subject.strip_prefix(stream).expect("it is a subject of the stream");
            assert!(own.is_empty() || Some(&own[1..]) == key.as_deref(), "the key is the subject's");
            records.push(raw);
        }
        records
    }
}
