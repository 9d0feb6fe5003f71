//! Shared Kafkas, each test behind a door of its own and in a namespace of its own, as subjects of the suite.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rdkafka::{Offset, TopicPartitionList};
use tidings::backend::GroupProtocol;
use tidings::conformance::{Network, Raw, Streams, Subject};
use tidings::{Namespace, Position};
use tidings_tests::harness::{Cut, Direction, Door, Kafka, KafkaKind, Refusal};
use tokio::sync::OnceCell;

/// A kind of Kafka, as a type.
pub(crate) trait Which: Send + Sync + 'static {
    const KIND: KafkaKind;
    const PROTOCOL: GroupProtocol = GroupProtocol::Classic;
}

macro_rules! kinds {
    ($($name:ident)+) => {
        $(
            pub(crate) struct $name;

            impl Which for $name {
                const KIND: KafkaKind = KafkaKind::$name;
            }
        )+
    };
}

kinds!(Kafka40 Kafka44);

/// Kafka 4.4, whose groups' members let the server decide who has which partition.
pub(crate) struct Kafka44Consumer;

impl Which for Kafka44Consumer {
    const KIND: KafkaKind = KafkaKind::Kafka44;
    const PROTOCOL: GroupProtocol = GroupProtocol::Consumer;
}

/// A server that others use too.
pub(crate) struct KafkaServer<W> {
    server: &'static Kafka,
    door: Door,
    namespace: Namespace,
    which: PhantomData<fn() -> W>,
}

impl<W: Which> KafkaServer<W> {
    fn past(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.server.address());
        config
    }
}

impl<W: Which> Subject for KafkaServer<W> {
    type Backend = tidings::backend::Kafka;

    fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    async fn start() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let server = Kafka::shared(W::KIND).await;
        warm_up(server).await;
        let environment = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let namespace = Namespace::new("conformance", &environment).expect("the name is good");
        Self { server, door: server.door().await, namespace, which: PhantomData }
    }

    fn backend(&self) -> tidings::backend::Kafka {
        let url = format!("kafka://{}", self.door.address());
        tidings::backend::Kafka::new(url).expect("the door's address is good").group_protocol(W::PROTOCOL)
    }

    async fn interrupt(&self) {
        self.door.cut(Cut::Reset).await;
    }

    async fn refuse(&self, refuse: bool) {
        self.door.refuse(if refuse { Refusal::StopListening } else { Refusal::Off }).await;
        if refuse {
            self.door.cut(Cut::Reset).await;
        }
    }
}

impl<W: Which> Streams for KafkaServer<W> {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [tidings::Storage] = &[tidings::Storage::File];
    const COUNTS: bool = false;
    const REMEMBERS: bool = false;
    const RENEWS: bool = false;

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        let config = self.past();
        let mut headers = OwnedHeaders::new();
        let mut key = None;
        for (name, value) in record.attributes {
            let header = match &*name {
                "datacontenttype" => "content-type".to_owned(),
                name => format!("ce_{name}"),
            };
            headers = headers.insert(Header { key: &header, value: Some(&value) });
            if name == "partitionkey" {
                key = Some(value);
            }
        }
        let producer: FutureProducer = config.create().expect("the settings are good");
        let mut message = FutureRecord::to(stream)
            .partition(i32::try_from(partition).expect("there are few"))
            .payload(&record.data)
            .headers(headers);
        if let Some(key) = &key {
            message = message.key(key);
        }
        producer.send(message, Timeout::Never).await.expect("the server takes it");
        tokio::task::spawn_blocking(move || drop(producer)).await.expect("it is dropped");
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        let mut config = self.past();
        config.set("group.id", "past").set("enable.partition.eof", "true").set("auto.offset.reset", "error");
        let topic = stream.to_owned();
        let read = move || {
            let consumer: BaseConsumer = config.create().expect("the settings are good");
            let mut partitions = TopicPartitionList::new();
            let partition = i32::try_from(partition).expect("there are few");
            partitions.add_partition_offset(&topic, partition, Offset::Beginning).expect("the offset is good");
            consumer.assign(&partitions).expect("the topic is there");
            let mut records = Vec::new();
            loop {
                match consumer.poll(Duration::from_millis(100)) {
                    Some(Ok(message)) => records.push(raw(&message)),
                    Some(Err(KafkaError::PartitionEOF(_))) => return records,
                    _ => {}
                }
            }
        };
        tokio::task::spawn_blocking(read).await.expect("the partition is read")
    }

    async fn remove_raw(&self, stream: &str, last: Position) {
        let admin: AdminClient<_> = self.past().create().expect("the settings are good");
        let mut before = TopicPartitionList::new();
        let partition = i32::try_from(last.partition()).expect("there are few");
        let offset = i64::try_from(last.offset()).expect("it is Kafka's") + 1;
        before.add_partition_offset(stream, partition, Offset::Offset(offset)).expect("the offset is good");
        admin.delete_records(&before, &AdminOptions::new()).await.expect("the server removes them");
        tokio::task::spawn_blocking(move || drop(admin)).await.expect("it is dropped");
    }
}

/// Appends a first record: a server's first idempotent producer waits for most of a second.
async fn warm_up(server: &'static Kafka) {
    static WARM: [OnceCell<()>; KafkaKind::ALL.len()] = [const { OnceCell::const_new() }; _];
    let place = KafkaKind::ALL.iter().position(|each| *each == server.kind()).expect("ALL has every kind");
    let warm = WARM[place].get_or_init(|| async {
        server.create_topic("conformance.warm", 1, &[]).await;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", server.address()).set("enable.idempotence", "true");
        let producer: FutureProducer = config.create().expect("the settings are good");
        let record = FutureRecord::<(), _>::to("conformance.warm").payload("1");
        producer.send(record, Timeout::Never).await.expect("the server takes it");
        tokio::task::spawn_blocking(move || drop(producer)).await.expect("it is dropped");
    });
    warm.await;
}

/// Headers as attributes. One that is none comes under its own name.
fn raw(message: &BorrowedMessage<'_>) -> Raw {
    let mut raw = Raw::new(message.payload().expect("it has a payload"));
    for header in message.headers().into_iter().flat_map(Headers::iter) {
        let name = match header.key {
            "content-type" => "datacontenttype",
            key => key.strip_prefix("ce_").unwrap_or(key),
        };
        let value = header.value.expect("a header has a value").to_vec();
        assert_eq!(raw.attributes.insert(name.to_owned(), value), None, "`{name}` is there twice");
    }
    let key = raw.attributes.get("partitionkey").map(Vec::as_slice);
    assert_eq!(key, message.key(), "the key is the attribute's");
    raw
}

impl<W: Which> Network for KafkaServer<W> {
    async fn silence(&self, silent: bool) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.door.stall(direction, silent);
        }
        if !silent {
            self.door.cut(Cut::Reset).await;
        }
    }

    async fn lose_replies(&self, lose: bool) {
        if !lose {
            self.door.cut(Cut::Reset).await;
        }
        self.door.drop_replies(lose);
    }

    async fn subscribed_connections(&self) -> usize {
        0
    }
}
