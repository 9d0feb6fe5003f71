//! Streams on Apache Kafka: what the suite can't ask of every backend.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use tidings::backend::{self, Sasl};
use tidings::{Broker, Config, ErrorKind, Limits, Namespace, Outcome, Start, Stream, StreamSettings, stream_spec};
use tidings_tests::harness::{Kafka, KafkaKind, KafkaOptions, eventually, free_ports, within};

/// More than a page of any test.
const ALL: usize = 4_096;

#[stream_spec(name = "shop.rows", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    n: u64,
}

#[stream_spec(name = "shop.pages", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    text: String,
}

type Rows = Stream<Row, backend::Kafka>;

macro_rules! on_every_kind {
    ($($case:ident),* $(,)?) => {
        mod kafka_4_0 {
            use tidings_tests::harness::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka40).await; })*
        }
        mod kafka_4_4 {
            use tidings_tests::harness::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka44).await; })*
        }
    };
}

on_every_kind! {
    nothing_acknowledged_is_lost_over_crashes_and_pauses,
    a_close_is_bounded_whatever_became_of_the_server,
    a_dropped_broker_blocks_nobody,
    users_log_in_over_tls,
    a_tombstone_has_no_value,
    a_full_buffer_refuses_at_once,
    a_record_too_large_for_its_topic_is_refused,
    nothing_is_created_in_passing,
    markers_and_aborted_records_are_no_loss,
    a_time_to_come_is_the_end,
    reads_at_once_are_bounded,
    reads_go_on_at_once_when_the_server_is_back,
}

/// A namespace that nobody else has.
fn namespace() -> Namespace {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Namespace::new("shop", format!("s{number}")).expect("the name is good")
}

fn kafka(address: &str) -> backend::Kafka {
    backend::Kafka::new(format!("kafka://{address}")).expect("the URL is good")
}

fn broker_of(backend: backend::Kafka, limits: Limits) -> Broker<backend::Kafka> {
    Broker::new(backend, Config::new(namespace()).limits(limits)).expect("the settings are good")
}

fn rows(address: &str, timeout: Duration) -> Rows {
    Row::stream(&broker_of(kafka(address), Limits::default().timeout(timeout))).expect("the name is good")
}

/// Creates a stream on a server that may still be about to come back.
async fn created(stream: &Rows, settings: StreamSettings) {
    while let Err(failed) = stream.ensure(settings.clone()).await {
        assert!(failed.is_transient(), "{failed}");
    }
}

async fn numbers(stream: &Rows, from: impl Into<Start>) -> Vec<u64> {
    let read = within("reading", stream.read(from, ALL, Duration::ZERO)).await.expect("the stream is there");
    read.iter().map(|delivery| delivery.value().expect("it is a row").n).collect()
}

/// What became of each append.
type Fates = BTreeMap<u64, Result<(), Outcome>>;

/// Appends numbers one after the other until it is stopped, and counts those that are stored.
async fn append_until(stream: &Rows, from: u64, stop: &AtomicBool, stored: &AtomicU64) -> Fates {
    let mut fates = Fates::new();
    for n in from.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let appended = within("appending", stream.append(&(n % 7), &Row { n })).await;
        let fate = appended.map(|_| ()).map_err(|error| error.outcome());
        if fate.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        } else {
            stored.fetch_add(1, Ordering::Relaxed);
        }
        fates.insert(n, fate);
    }
    fates
}

/// Returns once so many more are stored.
async fn more(stored: &AtomicU64, count: u64) {
    let before = stored.load(Ordering::Relaxed);
    eventually("more are stored", || async {
        let more = stored.load(Ordering::Relaxed) - before;
        if more >= count { Ok(()) } else { Err(format!("{more}")) }
    })
    .await;
}

async fn nothing_acknowledged_is_lost_over_crashes_and_pauses(kind: KafkaKind) {
    let mut server = Kafka::start(kind, KafkaOptions::default()).await;
    let stream = rows(&server.address(), Duration::from_secs(1));
    let creator = rows(&server.address(), Duration::from_secs(10));
    drop(creator);
    within("creating", async { while stream.ensure(StreamSettings::new().partitions(3)).await.is_err() {} }).await;
    let (stop, stored) = (AtomicBool::new(false), AtomicU64::new(0));
    let breaking = async {
        more(&stored, 10).await;
        server.pause().await;
        // Longer than an append's time.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server.resume().await;
        more(&stored, 10).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.restart().await;
        more(&stored, 10).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (one, two, ()) = tokio::join!(
        append_until(&stream, 0, &stop, &stored),
        append_until(&stream, 1_000_000, &stop, &stored),
        breaking
    );
    let fates: Fates = one.into_iter().chain(two).collect();
    // What may be on its way still is settled by then.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    let mut after = tidings::Positions::new();
    loop {
        let page = within("reading", stream.read(after.clone(), ALL, Duration::ZERO)).await.expect("it is there again");
        if page.is_empty() {
            break;
        }
        after.extend(page.iter().map(tidings::Delivery::position));
        for delivery in &page {
            *seen.entry(delivery.value().expect("it is a row").n).or_default() += 1;
        }
    }
    let count = |wanted: Result<(), Outcome>| fates.values().filter(|fate| **fate == wanted).count();
    let (stored, unknown) = (count(Ok(())), count(Err(Outcome::Unknown)));
    assert!(stored > 20, "{stored} were stored");
    assert!(unknown > 0, "a pause leaves some unknown");
    for (n, fate) in &fates {
        let times = seen.get(n).copied().unwrap_or(0);
        match fate {
            Ok(()) => assert_eq!(times, 1, "{n} was acknowledged"),
            Err(Outcome::NotApplied) => assert_eq!(times, 0, "{n} wasn't applied"),
            Err(Outcome::Unknown) => assert!(times <= 1, "{n} is there {times} times"),
        }
    }
    let last = within("the control: appending on", stream.append(&1, &Row { n: 9 })).await;
    assert!(last.is_ok(), "{last:?}");
}

async fn a_close_is_bounded_whatever_became_of_the_server(kind: KafkaKind) {
    const DEADLINE: Duration = Duration::from_secs(8);
    let timeout = Duration::from_secs(2);
    let mut server = Kafka::start(kind, KafkaOptions::default()).await;
    for state in ["up", "paused", "killed", "never there"] {
        if state == "killed" {
            server.resume().await;
        }
        let address = if state == "never there" { format!("127.0.0.1:{}", free_ports(1)[0]) } else { server.address() };
        let stream = rows(&address, timeout);
        let mut tail = stream.tail(Start::Earliest);
        if state != "never there" {
            within("creating", created(&stream, StreamSettings::new())).await;
            within("appending", stream.append(&1, &Row { n: 1 })).await.expect("the server is up");
            within("reading", tail.receive()).await.expect("the server is up");
        }
        match state {
            "paused" => server.pause().await,
            "killed" => server.kill(),
            _ => {}
        }
        let row = Row { n: 2 };
        let waiting =
            async { tokio::join!(stream.append(&1, &row), stream.read(Start::Latest, 1, DEADLINE), tail.receive()) };
        let closing = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let began = Instant::now();
            let closed = stream.broker().close(DEADLINE).await;
            (closed, began.elapsed())
        };
        let ((appended, read, tailed), (closed, took)) =
            within("closing", async { tokio::join!(waiting, closing) }).await;
        assert!(closed.is_ok(), "{state}: {closed:?} after {took:?}");
        println!("{state}: closed in {took:?}");
        if state == "up" {
            assert!(appended.is_ok(), "{appended:?}");
        } else {
            let failed = appended.expect_err("nobody answers");
            assert!(matches!(failed.kind(), ErrorKind::Closed | ErrorKind::Unavailable), "{state}: {failed}");
        }
        for (what, failed) in [("a read", read.err()), ("a tail", tailed.err())] {
            // A tail may have got the second record.
            if let Some(failed) = failed {
                let told = matches!(failed.kind(), ErrorKind::Closed | ErrorKind::Unavailable | ErrorKind::Timeout);
                assert!(told, "{state}: {what}: {failed}");
            }
        }
        assert_eq!(stream.broker().stats().tasks, 0, "{state}");
    }
}

async fn a_dropped_broker_blocks_nobody(kind: KafkaKind) {
    let mut server = Kafka::start(kind, KafkaOptions::default()).await;
    for killed in [false, true] {
        let stream = rows(&server.address(), Duration::from_secs(2));
        within("creating", created(&stream, StreamSettings::new())).await;
        within("appending", stream.append(&1, &Row { n: 1 })).await.expect("the server is up");
        assert!(!numbers(&stream, Start::Earliest).await.is_empty());
        if killed {
            server.kill();
        } else {
            server.pause().await;
        }
        let row = Row { n: 2 };
        assert!(tokio::time::timeout(Duration::from_millis(100), stream.append(&1, &row)).await.is_err());
        let began = Instant::now();
        drop(stream);
        let took = began.elapsed();
        assert!(took < Duration::from_millis(100), "it took {took:?}");
        if !killed {
            server.resume().await;
        }
    }
}

async fn users_log_in_over_tls(kind: KafkaKind) {
    let options = KafkaOptions::default().tls().user("alice", "secret");
    let server = Kafka::start(kind, options).await;
    let tls = server.tls().expect("it has certificates");
    let pem = |path: &std::path::Path| std::fs::read(path).expect("it was written");
    let url = |password: &str| format!("kafka+ssl://alice:{password}@{}", server.address());
    let stream = |kafka: backend::Kafka| {
        let limits = Limits::default().timeout(Duration::from_secs(2));
        Row::stream(&broker_of(kafka, limits)).expect("the name is good")
    };
    let made = |password: &str| backend::Kafka::new(url(password)).expect("the URL is good").authority(pem(&tls.ca));
    let ways = [
        made("secret"),
        made("secret").sasl(Sasl::Plain),
        made("secret").sasl(Sasl::ScramSha256),
        made("secret").sasl(Sasl::ScramSha512).client_certificate(pem(&tls.client_certificate), pem(&tls.client_key)),
    ];
    for (n, way) in (0..).zip(ways) {
        let stream = stream(way);
        within("creating", stream.ensure(StreamSettings::new())).await.expect("the user may");
        within("appending", stream.append(&1, &Row { n })).await.expect("the user may");
        assert_eq!(numbers(&stream, Start::Earliest).await, [n]);
        let checked = within("checking", stream.broker().check(Duration::from_secs(5))).await.expect("the user may");
        assert!(checked.problems.is_empty(), "{checked:?}");
    }
    for sasl in [Sasl::Plain, Sasl::ScramSha512] {
        let refused = within("a wrong password", stream(made("hunter2").sasl(sasl)).append(&1, &Row { n: 1 })).await;
        let refused = refused.expect_err("the password is wrong");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{refused:?}");
        assert!(!format!("{refused:?}{refused}").contains("hunter2"), "{refused:?}");
    }
    let strange = backend::Kafka::new(url("secret")).expect("the URL is good");
    let refused = within("an unknown authority", stream(strange).append(&1, &Row { n: 1 })).await;
    let refused = refused.expect_err("nobody vouches for the server");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{refused:?}");
    let shown = format!("{:?} {:?}", made("hunter2"), stream(made("hunter2")).broker());
    assert!(shown.contains("127.0.0.1") && !shown.contains("hunter2") && !shown.contains("alice"), "{shown}");
}

async fn a_tombstone_has_no_value(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    let stream = rows(&server.address(), Duration::from_secs(5));
    within("creating", stream.ensure(StreamSettings::new())).await.expect("the server is up");
    within("appending", stream.append(&7, &Row { n: 1 })).await.expect("the server is up");
    let told = within("appending", stream.append_tombstone(&7)).await.expect("the server is up");
    let read = within("reading", stream.read(Start::Earliest, ALL, Duration::ZERO)).await.expect("it is there");
    assert_eq!(read.len(), 2);
    assert!(!read[0].is_tombstone() && read[0].value().is_ok());
    assert!(read[1].is_tombstone() && read[1].data().is_empty());
    assert_eq!(Some(read[1].position()), told.position);
    assert_eq!(read[1].key().expect("it has one"), 7);
    assert!(read[1].id().is_some() && read[1].content_type().is_none());
    let poison = read[1].value().expect_err("it has no value").to_string();
    assert!(poison.contains("tombstone"), "{poison}");

    let (address, topic) = (server.address(), stream.address().to_owned());
    let values = tokio::task::spawn_blocking(move || raw_values(&address, &topic)).await.expect("it is read");
    assert_eq!(values, [Some(b"{\"n\":1}".to_vec()), None]);
}

/// The values of a partition, past the backend.
fn raw_values(address: &str, topic: &str) -> Vec<Option<Vec<u8>>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "past").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("the settings are good");
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning).expect("the offset is good");
    consumer.assign(&partitions).expect("the topic is there");
    let mut values = Vec::new();
    loop {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => values.push(message.payload().map(<[u8]>::to_vec)),
            Some(Err(KafkaError::PartitionEOF(_))) => return values,
            _ => {}
        }
    }
}

async fn a_full_buffer_refuses_at_once(kind: KafkaKind) {
    let server = Kafka::start(kind, KafkaOptions::default()).await;
    let limits = Limits::default().timeout(Duration::from_secs(2));
    let broker = broker_of(kafka(&server.address()).buffer_bytes(1 << 20), limits);
    let pages = Page::stream(&broker).expect("the name is good");
    within("creating", async { while pages.ensure(StreamSettings::new()).await.is_err() {} }).await;
    let page = Page { text: "x".repeat(100_000) };
    within("appending", pages.append(&1, &page)).await.expect("the server is up");
    server.pause().await;
    let outcomes = within("a batch", pages.append_all((0..20).map(|_| (&1, &page)))).await.expect("it is taken");
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().expect_err("nobody answers").kind()).collect();
    let full = kinds.iter().filter(|kind| **kind == ErrorKind::Overloaded).count();
    assert!((8..=12).contains(&full), "{kinds:?}");
    for outcome in outcomes {
        let failed = outcome.expect_err("nobody answers");
        let overloaded = failed.kind() == ErrorKind::Overloaded;
        let wanted = if overloaded { Outcome::NotApplied } else { Outcome::Unknown };
        assert_eq!(failed.outcome(), wanted, "{failed}");
        assert!(failed.is_transient(), "{failed}");
    }
    server.resume().await;
    within("the control: appending again", async { while pages.append(&1, &page).await.is_err() {} }).await;
}

async fn a_record_too_large_for_its_topic_is_refused(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    let broker = broker_of(kafka(&server.address()), Limits::default());
    let pages = Page::stream(&broker).expect("the name is good");
    server.create_topic(pages.address(), 1, &[("max.message.bytes", "2000")]).await;
    let refused = within("appending", pages.append(&1, &Page { text: "x".repeat(3_000) })).await;
    let refused = refused.expect_err("it is too large");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied), "{refused:?}");
    within("the control", pages.append(&1, &Page { text: "x".repeat(100) })).await.expect("it is small");
    let read = within("reading", pages.read(Start::Earliest, ALL, Duration::ZERO)).await.expect("it is there");
    assert_eq!(read.len(), 1);
}

async fn nothing_is_created_in_passing(kind: KafkaKind) {
    let server = Kafka::start(kind, KafkaOptions::default().config("auto.create.topics.enable=true")).await;
    let stream = rows(&server.address(), Duration::from_secs(2));
    let other = Page::stream(stream.broker()).expect("the name is good");
    within("creating another", async { while other.ensure(StreamSettings::new()).await.is_err() {} }).await;
    // With a producer at work, too, which the library makes ask for what is to be created.
    within("appending", other.append(&1, &Page { text: String::new() })).await.expect("it is there");
    for round in 0..2 {
        let row = Row { n: 1 };
        let failed = [
            within("appending", stream.append(&1, &row)).await.expect_err("it isn't there"),
            within("reading", stream.read(Start::Earliest, 1, Duration::ZERO)).await.expect_err("it isn't there"),
            within("tailing", stream.tail(Start::Latest).receive()).await.expect_err("it isn't there"),
        ];
        for error in failed {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Absent, Outcome::NotApplied), "{error:?}");
        }
        within("checking", stream.broker().check(Duration::from_secs(2))).await.expect("the server is up");
        if round == 0 {
            within("creating", stream.ensure(StreamSettings::new())).await.expect("the server is up");
            within("appending", stream.append(&1, &row)).await.expect("it is there");
            assert!(within("removing", stream.delete()).await.expect("the server is up"));
        }
    }
    let (address, own) = (server.address(), stream.address().to_owned());
    let topics = tokio::task::spawn_blocking(move || {
        let asker: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", address).create().expect("the settings are good");
        let metadata = asker.fetch_metadata(None, Duration::from_secs(5)).expect("the server is up");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect::<Vec<_>>()
    });
    let topics = topics.await.expect("it is asked");
    assert!(topics.iter().any(|topic| topic == other.address()), "{topics:?}");
    assert!(!topics.contains(&own) && !topics.iter().any(|topic| topic.starts_with("tidings")), "{topics:?}");
}

async fn markers_and_aborted_records_are_no_loss(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    let stream = rows(&server.address(), Duration::from_secs(5));
    within("creating", stream.ensure(StreamSettings::new())).await.expect("the server is up");
    let mut tail = stream.tail(Start::Earliest);
    let (address, topic) = (server.address(), stream.address().to_owned());
    let transact = move || {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", address)
            .set("transactional.id", &topic)
            .create()
            .expect("the settings are good");
        let patience = Duration::from_secs(20);
        producer.init_transactions(patience).expect("the server is up");
        for (n, commits) in [(1, true), (2, false), (3, true), (4, false)] {
            producer.begin_transaction().expect("none is open");
            let payload = format!("{{\"n\":{n}}}");
            producer.send(BaseRecord::<(), _>::to(&topic).payload(&payload)).expect("there is room");
            producer.flush(patience).expect("the server is up");
            let ended =
                if commits { producer.commit_transaction(patience) } else { producer.abort_transaction(patience) };
            ended.expect("the server is up");
        }
    };
    tokio::task::spawn_blocking(transact).await.expect("they are recorded");
    assert_eq!(numbers(&stream, Start::Earliest).await, [1, 3]);
    for n in [1, 3] {
        let next = within("tailing", tail.receive()).await.expect("it is there");
        assert_eq!(next.value().expect("it is a row").n, n);
    }
    let read = within("reading", stream.read(Start::Earliest, ALL, Duration::ZERO)).await.expect("it is there");
    let last = read[1].position();
    // What is behind the last record is no record: nobody waits for it, and it is no loss.
    for _ in 0..3 {
        let began = Instant::now();
        assert!(numbers(&stream, last).await.is_empty());
        assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    }
    assert!(numbers(&stream, Start::Latest).await.is_empty());
    within("appending", stream.append(&1, &Row { n: 5 })).await.expect("the server is up");
    assert_eq!(numbers(&stream, last).await, [5]);
    let next = within("tailing", tail.receive()).await.expect("it is there");
    assert_eq!(next.value().expect("it is a row").n, 5);
}

async fn a_time_to_come_is_the_end(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    let stream = rows(&server.address(), Duration::from_secs(5));
    within("creating", stream.ensure(StreamSettings::new().partitions(2))).await.expect("the server is up");
    let hour = Duration::from_hours(1);
    let times = [SystemTime::UNIX_EPOCH - hour, SystemTime::now() - hour, SystemTime::now() + hour];
    for time in times {
        assert!(numbers(&stream, Start::At(time)).await.is_empty());
    }
    for n in 0..10 {
        within("appending", stream.append(&n, &Row { n })).await.expect("the server is up");
    }
    for (time, count) in times.into_iter().zip([10, 10, 0]) {
        assert_eq!(numbers(&stream, Start::At(time)).await.len(), count, "{time:?}");
    }
}

/// A client tells of an outage again and again, and much of that is still to be told when it is over.
async fn reads_go_on_at_once_when_the_server_is_back(kind: KafkaKind) {
    let mut server = Kafka::start(kind, KafkaOptions::default()).await;
    let stream = rows(&server.address(), Duration::from_secs(3));
    created(&stream, StreamSettings::new()).await;
    within("an append goes through", async { while stream.append(&1, &Row { n: 0 }).await.is_err() {} }).await;
    let read = async || stream.read(Start::Earliest, ALL, Duration::ZERO).await;
    within("a read goes through", async { while read().await.is_err() {} }).await;
    server.kill();
    let is_up = AtomicBool::new(false);
    let restarting = async {
        // Each attempt to connect fails meanwhile.
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.restart().await;
        within("an append goes through", async { while stream.append(&1, &Row { n: 1 }).await.is_err() {} }).await;
        is_up.store(true, Ordering::Relaxed);
    };
    let reading = async {
        let (mut before, mut since) = (0, Vec::new());
        while since.len() < 5 {
            let was_up = is_up.load(Ordering::Relaxed);
            let failed = read().await.err().map(|error| format!("{error:#}"));
            if was_up {
                since.push(failed);
            } else {
                before += u32::from(failed.is_some());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        (before, since)
    };
    let ((before, since), ()) = within("reading on", async { tokio::join!(reading, restarting) }).await;
    assert!(before > 0, "the outage was told");
    assert_eq!(since, [const { None }; 5], "the server is up again");
}

async fn reads_at_once_are_bounded(kind: KafkaKind) {
    let server = Kafka::shared(kind).await;
    let broker = broker_of(kafka(&server.address()), Limits::default().subscriptions(2));
    let stream = Row::stream(&broker).expect("the name is good");
    within("creating", stream.ensure(StreamSettings::new())).await.expect("the server is up");
    let long = Duration::from_secs(20);
    let reads = async { tokio::join!(stream.read(Start::Latest, 1, long), stream.read(Start::Latest, 1, long)) };
    let row = Row { n: 1 };
    let third = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let third = stream.read(Start::Earliest, 1, Duration::ZERO).await;
        stream.append(&1, &row).await.expect("appending is another matter");
        third
    };
    let ((one, two), third) = within("three reads", async { tokio::join!(reads, third) }).await;
    assert_eq!((one.expect("it came").len(), two.expect("it came").len()), (1, 1));
    let third = third.expect_err("two are under way");
    assert_eq!((third.kind(), third.outcome()), (ErrorKind::Overloaded, Outcome::NotApplied), "{third:?}");
    assert_eq!(numbers(&stream, Start::Earliest).await, [1]);
}

#[test]
fn every_bad_setting_is_named_at_once() {
    let kafka = backend::Kafka::new("kafka://localhost").expect("the URL is good");
    let bad = kafka
        .authority("nothing")
        .client_certificate("nothing", "either")
        .sasl(Sasl::Plain)
        .session_timeout(Duration::ZERO)
        .transactional_id("")
        .buffer_bytes(0);
    let refused = Broker::new(bad, Config::new(namespace()).limits(Limits::default().operations(0)));
    let said = refused.expect_err("all of it is bad").to_string();
    for word in [
        "`operations`",
        "kafka+ssl://",
        "authority's certificate",
        "client's certificate",
        "private key",
        "no user",
        "`session_timeout`",
        "`transactional_id`",
        "`buffer_bytes`",
    ] {
        assert!(said.contains(word), "{word} is missing: {said}");
    }
}
