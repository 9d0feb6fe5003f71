//! Apache Kafka as the harness starts it, seen by the client that the library builds on.

mod cluster;
mod groups;
mod load;
mod mock;
mod rights;
mod streams;

use std::path::Path;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::util::Timeout;
use tidings_tests::harness::{Cut, Direction, Kafka, KafkaCluster, KafkaKind, KafkaOptions, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for anything on loopback to arrive: the wait for something that mustn't.
const A_MOMENT: Duration = Duration::from_millis(300);

// A client's end blocks its thread, while a proxy and the waits need one.
macro_rules! on_every_kind {
    ($($case:ident),* $(,)?) => {
        mod kafka_4_0 {
            use super::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka40).await; })*
        }
        mod kafka_4_4 {
            use super::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka44).await; })*
        }
    };
}

on_every_kind! {
    a_shared_server_carries_a_group,
    a_shared_server_s_door_breaks_the_network,
    a_killed_server_keeps_its_ports_and_log,
    every_compression_is_read,
    users_log_in,
    users_log_in_by_scram,
    a_tls_port_speaks_no_plain_text,
    certificates_of_an_own_authority_are_checked,
    users_log_in_through_tls_and_a_door,
    a_cluster_survives_the_crash_of_a_leader,
}

fn client(addresses: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", addresses).set("reconnect.backoff.max.ms", "200");
    config
}

fn producer(config: &ClientConfig) -> FutureProducer {
    config.clone().set("acks", "all").set("linger.ms", "0").create().expect("the settings are good")
}

fn consumer(config: &ClientConfig, group: &str, topic: &str) -> StreamConsumer {
    let mut config = config.clone();
    config.set("group.id", group).set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    let consumer: StreamConsumer = config.create().expect("the settings are good");
    consumer.subscribe(&[topic]).expect("the name is good");
    consumer
}

async fn send(producer: &FutureProducer, topic: &str, payload: &str) -> i64 {
    let record = FutureRecord::to(topic).key("key").payload(payload);
    within("a record is acknowledged", producer.send(record, Timeout::Never)).await.expect("it is taken").offset
}

/// Receives the next record, and commits.
async fn receive(consumer: &StreamConsumer) -> String {
    within("a record comes", async {
        loop {
            match consumer.recv().await {
                Ok(message) => {
                    consumer.commit_message(&message, CommitMode::Sync).expect("the group is ours");
                    return String::from_utf8(message.payload().expect("it has one").to_vec()).expect("it is text");
                }
                // Told of a connection that broke, say; the client goes on by itself.
                Err(KafkaError::MessageConsumption(error)) if error != RDKafkaErrorCode::UnknownTopicOrPartition => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

async fn a_shared_server_carries_a_group(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    assert!(std::ptr::eq(server, Kafka::shared(kind).await));

    let config = client(&server.address());
    let admin: AdminClient<_> = config.create().expect("the settings are good");
    let topic = NewTopic::new("groups", 2, TopicReplication::Fixed(1));
    let created = within("the topic is created", admin.create_topics([&topic], &AdminOptions::new())).await;
    assert_eq!(created.expect("the server answers"), [Ok("groups".to_owned())]);

    let producer = producer(&config);
    assert_eq!(send(&producer, "groups", "one").await, 0);
    for protocol in ["classic", "consumer"] {
        let config = config.clone().set("group.protocol", protocol).clone();
        let first = consumer(&config, protocol, "groups");
        assert_eq!(receive(&first).await, "one");
        drop(first);
    }
    send(&producer, "groups", "two").await;
    for protocol in ["classic", "consumer"] {
        // Another consumer goes on where the group has committed.
        let config = config.clone().set("group.protocol", protocol).clone();
        assert_eq!(receive(&consumer(&config, protocol, "groups")).await, "two");
    }
}

async fn a_shared_server_s_door_breaks_the_network(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    server.create_topic("doors", 1, &[]).await;
    let door = server.door().await;
    let producer = producer(&client(&door.address()));
    send(&producer, "doors", "one").await;
    // The client stays on the proxy, since the server tells that address.
    assert!(door.counters().to_server > 0);
    door.stall(Direction::ToClient, true);
    let stalled = producer.send(FutureRecord::<(), _>::to("doors").payload("two"), Timeout::Never);
    let mut stalled = Box::pin(stalled);
    assert!(timeout(A_MOMENT, &mut stalled).await.is_err());
    door.stall(Direction::ToClient, false);
    assert_eq!(within("it is acknowledged", stalled).await.expect("it is taken").offset, 1);
    door.cut(Cut::Reset).await;
    send(&producer, "doors", "three").await;
}

async fn a_killed_server_keeps_its_ports_and_log(kind: KafkaKind) {
    let mut server = Kafka::start(kind, KafkaOptions::default()).await;
    server.create_topic("kept", 1, &[("retention.ms", "-1")]).await;
    let config = client(&server.address());
    let producer = producer(&config);
    let first = consumer(&config, "keepers", "kept");
    send(&producer, "kept", "one").await;
    assert_eq!(receive(&first).await, "one");

    server.pause().await;
    let waiting = producer.send(FutureRecord::<(), _>::to("kept").payload("two"), Timeout::Never);
    let mut waiting = Box::pin(waiting);
    assert!(timeout(A_MOMENT, &mut waiting).await.is_err());
    server.resume().await;
    within("it is acknowledged", waiting).await.expect("it is taken");

    let (port, pid) = (server.port(), server.pid());
    server.kill();
    assert!(!server.is_running());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    server.restart().await;
    assert_eq!(server.port(), port);
    assert_eq!(receive(&first).await, "two");
    assert_eq!(send(&producer, "kept", "three").await, 2);
    assert_eq!(receive(&first).await, "three");
    // While it is there: a consumer that can't leave its group waits for long.
    drop(first);

    server.stop().await;
    server.restart().await;
    assert_eq!(receive_from_start(&config).await, "one");
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!folder.exists());
}

async fn receive_from_start(config: &ClientConfig) -> String {
    receive(&consumer(config, "others", "kept")).await
}

async fn every_compression_is_read(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    server.create_topic("compressed", 1, &[]).await;
    let config = client(&server.address());
    let consumer = consumer(&config, "readers", "compressed");
    for compression in ["gzip", "snappy", "lz4", "zstd"] {
        // Long enough that no codec finds it better as it is.
        let payload = compression.repeat(1_000);
        send(&producer(config.clone().set("compression.type", compression)), "compressed", &payload).await;
        assert_eq!(receive(&consumer).await, payload);
    }
}

async fn users_log_in(kind: KafkaKind) {
    let server = Kafka::start(kind, KafkaOptions::default().user("alice", "secret").doors(1)).await;
    server.create_topic("private", 1, &[]).await;
    let door = server.door().await;
    for address in [server.address(), door.address()] {
        let mut config = client(&address);
        config.set("security.protocol", "sasl_plaintext");
        log_in(&mut config, "PLAIN", "alice", "secret");
        send(&producer(&config), "private", "one").await;
        log_in(&mut config, "PLAIN", "alice", "wrong");
        assert_refused(&config, "private").await;
    }
}

async fn users_log_in_by_scram(kind: KafkaKind) {
    let options = KafkaOptions::default().user("alice", "secret").user("bob", "other");
    let server = Kafka::start(kind, options).await;
    server.create_topic("private", 1, &[]).await;
    let mut config = client(&server.address());
    config.set("security.protocol", "sasl_plaintext");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        log_in(&mut config, mechanism, "alice", "secret");
        send(&producer(&config), "private", "one").await;
        log_in(&mut config, mechanism, "bob", "other");
        send(&producer(&config), "private", "two").await;
        log_in(&mut config, mechanism, "bob", "secret");
        assert_refused(&config, "private").await;
    }
}

fn log_in(config: &mut ClientConfig, mechanism: &str, name: &str, password: &str) {
    config.set("sasl.mechanism", mechanism).set("sasl.username", name).set("sasl.password", password);
}

/// Sees a record refused by a server that lets the client not even connect.
async fn assert_refused(config: &ClientConfig, topic: &str) {
    let producer = producer(config.clone().set("message.timeout.ms", "1000"));
    let record = FutureRecord::<(), _>::to(topic).payload("refused");
    let refused = within("it is refused", producer.send(record, Timeout::Never)).await;
    assert_eq!(refused.unwrap_err().0.rdkafka_error_code(), Some(RDKafkaErrorCode::MessageTimedOut));
}

async fn a_tls_port_speaks_no_plain_text(kind: KafkaKind) {
    let server = Kafka::start(kind, KafkaOptions::default().tls()).await;
    assert!(server.tls().expect("it has certificates").ca.is_file());
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.expect("it listens");
    // A request for the supported versions, which a plain port answers.
    client.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff]).await.expect("the connection is open");
    let mut answer = Vec::new();
    // Either a TLS alert or a reset.
    let _ = within("the server hangs up", client.read_to_end(&mut answer)).await;
    assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
}

async fn certificates_of_an_own_authority_are_checked(kind: KafkaKind) {
    // Clients have to have a certificate too.
    let options = KafkaOptions::default().tls().config("listener.name.client.ssl.client.auth=required");
    let server = Kafka::start(kind, options).await;
    server.create_topic("sealed", 1, &[]).await;
    let tls = server.tls().expect("it has certificates");
    let mut config = client(&server.address());
    config.set("security.protocol", "ssl");
    set_paths(&mut config, &[("ssl.ca.location", &tls.ca)]);
    assert_refused(&config, "sealed").await;
    set_paths(
        &mut config,
        &[("ssl.certificate.location", &tls.client_certificate), ("ssl.key.location", &tls.client_key)],
    );
    send(&producer(&config), "sealed", "one").await;
    assert_eq!(receive(&consumer(&config, "group", "sealed")).await, "one");
    // The system's authorities haven't signed the server's.
    config.remove("ssl.ca.location");
    assert_refused(&config, "sealed").await;
}

async fn users_log_in_through_tls_and_a_door(kind: KafkaKind) {
    let server = Kafka::start(kind, KafkaOptions::default().tls().user("alice", "secret").doors(1)).await;
    server.create_topic("both", 1, &[]).await;
    let door = server.door().await;
    let mut config = client(&door.address());
    config.set("security.protocol", "sasl_ssl");
    set_paths(&mut config, &[("ssl.ca.location", &server.tls().expect("it has certificates").ca)]);
    log_in(&mut config, "SCRAM-SHA-256", "alice", "secret");
    send(&producer(&config), "both", "one").await;
    door.cut(Cut::Reset).await;
    assert_eq!(receive(&consumer(&config, "group", "both")).await, "one");
    log_in(&mut config, "SCRAM-SHA-256", "alice", "wrong");
    assert_refused(&config, "both").await;
}

fn set_paths(config: &mut ClientConfig, paths: &[(&str, &Path)]) {
    for (name, path) in paths {
        config.set(*name, path.to_str().expect("the folder's name is text"));
    }
}

async fn a_cluster_survives_the_crash_of_a_leader(kind: KafkaKind) {
    let mut cluster = KafkaCluster::start(kind, KafkaOptions::default()).await;
    cluster.create_topic("led", 1, &[]).await;
    let producer = producer(&client(&cluster.addresses()));
    send(&producer, "led", "one").await;

    let crashed = cluster.leader_of("led", 0).await;
    let heir = cluster.crash_leader_of("led", 0).await;
    assert_ne!(heir, crashed);
    assert_eq!(send(&producer, "led", "two").await, 1);
    cluster.restart(crashed).await;
    cluster.wait_until_in_sync("led", 0).await;

    cluster.stop(heir).await;
    let second = cluster.leader_of("led", 0).await;
    assert_ne!(second, heir);
    assert_eq!(send(&producer, "led", "three").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_s_own_mock_carries_a_group() {
    let mock = MockCluster::new(3).expect("it starts");
    mock.create_topic("mocked", 1, 1).expect("the name is good");
    let config = client(&mock.bootstrap_servers());
    let producer = producer(&config);
    send(&producer, "mocked", "one").await;
    assert_eq!(receive(&consumer(&config, "mockers", "mocked")).await, "one");
}
