//! Holds the tables of `docs/wire.md` to what the library sends.

mod support;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use support::Redis;
use tidings::backend::{Memory, Redis as RedisBackend};
use tidings::capability::{Backend, BackendError, Checked, Feed, Host, Outgoing, PubSub, Wanted, partition_of};
use tidings::codec::{Decode, Encode, Json};
use tidings::{
    Append, Broker, Config, Delivery, Namespace, Start, StreamSettings, StreamSpec, Topic, TopicKey, TopicSpec,
    stream_spec, topic,
};

const PAGE: &str = include_str!("../../docs/wire.md");

/// The cells of the table with this head.
fn table<const N: usize>(head: [&str; N]) -> Vec<[String; N]> {
    let head = format!("| {} |", head.join(" | "));
    let rows = PAGE.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().unwrap_or_else(|_| panic!("another number of cells: {row}"))
    };
    let rows: Vec<_> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "no table with the head {head}");
    rows
}

fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}

/// Memory, with a copy of what went through it.
#[derive(Clone, Default)]
struct Recorder {
    memory: Memory,
    sent: Arc<Mutex<Vec<Outgoing>>>,
}

impl Recorder {
    fn take(&self) -> Vec<Outgoing> {
        std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One broker's client of it.
struct Recording {
    memory: <Memory as Backend>::Client,
    sent: Arc<Mutex<Vec<Outgoing>>>,
}

impl Backend for Recorder {
    type Client = Recording;

    fn system(&self) -> &'static str {
        "recorder"
    }

    fn client(&self, host: Host) -> Result<Recording, Vec<String>> {
        Ok(Recording { memory: self.memory.client(host)?, sent: self.sent.clone() })
    }

    async fn check(_: &Recording, _: Wanted) -> Result<Checked, BackendError> {
        Ok(Checked::new("recorder"))
    }

    async fn close(client: &Recording) {
        Memory::close(&client.memory).await;
    }
}

impl PubSub for Recorder {
    type Subscription = <Memory as PubSub>::Subscription;

    async fn publish(client: &Recording, message: Outgoing) -> Result<Option<u64>, BackendError> {
        client.sent.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        Memory::publish(&client.memory, message).await
    }

    async fn publish_all(client: &Recording, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        client.sent.lock().unwrap_or_else(PoisonError::into_inner).extend(messages.iter().cloned());
        Memory::publish_all(&client.memory, messages).await
    }

    async fn subscribe(
        client: &Recording,
        channels: Vec<Arc<str>>,
        feed: Feed,
    ) -> Result<Self::Subscription, BackendError> {
        Memory::subscribe(&client.memory, channels, feed).await
    }
}

#[topic(name = "orders.audit", version = 1)]
#[derive(Serialize)]
struct Audit;

#[topic(name = "orders.counted", version = 1, key = u64)]
#[derive(Serialize)]
struct Counted;

#[topic(name = "orders.placed", version = 2, key = String)]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Placed {
    order: u64,
    cents: i64,
    note: Option<String>,
}

#[derive(TopicKey, Deserialize)]
struct Visitor(String, i32, String);

#[topic(name = "visits", version = 1, key = Visitor)]
#[derive(Serialize)]
struct Visit;

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Shipped,
}

/// The channel on which an event goes out under a key that is written as JSON.
async fn channel<T>(recorder: &Recorder, topic: &Topic<T, Recorder>, key: &str, event: &T) -> String
where
    T: TopicSpec,
    T::Key: DeserializeOwned,
    T::Codec: Encode<T>,
{
    let key = serde_json::from_str(key).expect("keys on the page are JSON");
    topic.publish(&key, event).await.expect("the recorder takes everything");
    recorder.take().remove(0).channel
}

#[tokio::test]
async fn channels_are_those_on_the_page() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = Recorder::default();
    let broker = Broker::new(recorder.clone(), Config::new(Namespace::new("shop", "prod")?))?;
    let placed = Placed { order: 1, cents: 1, note: None };
    for [topic, key, wanted] in table(["topic", "key", "channel"]) {
        let key = code(&key);
        let sent = match topic.split(',').next().map(code) {
            Some("orders.audit") => channel(&recorder, &Audit::topic(&broker)?, key, &Audit).await,
            Some("orders.counted") => channel(&recorder, &Counted::topic(&broker)?, key, &Counted).await,
            Some("orders.placed") => channel(&recorder, &Placed::topic(&broker)?, key, &placed).await,
            Some("visits") => channel(&recorder, &Visit::topic(&broker)?, key, &Visit).await,
            _ => panic!("no topic for {topic}"),
        };
        assert_eq!(sent, code(&wanted), "{key}");
    }
    Ok(())
}

#[test]
fn payloads_are_those_on_the_page() {
    macro_rules! values {
        ($($value:expr),+ $(,)?) => { [$((stringify!($value), encoded(&$value))),+] };
    }
    fn encoded<T>(value: &T) -> String
    where
        Json: Encode<T>,
    {
        let mut to = Vec::new();
        Json::encode(value, &mut to, 1_024).expect("values on the page can be encoded");
        String::from_utf8(to).expect("JSON is UTF-8")
    }
    let values = values![
        Placed { order: 7, cents: -990, note: None },
        Placed { order: u64::MAX, cents: 0, note: Some("é\n".to_owned()) },
        (0.1, 1.0, -0.0),
        Some(Status::Shipped),
        Vec::<u8>::new(),
    ];
    let rows = table(["value", "payload"]);
    assert_eq!(rows.len(), values.len());
    for ([value, payload], (source, sent)) in rows.iter().zip(values) {
        assert_eq!((code(value), code(payload)), (source, &*sent));
    }
}

#[test]
fn what_the_page_refuses_is_refused() {
    let accepted = r#"{"order":7,"cents":1,"note":null,"more":[1]}"#;
    assert_eq!(Json::decode(accepted.as_bytes()), Ok(Placed { order: 7, cents: 1, note: None }));
    for [text, why] in table(["text", "refused as"]) {
        let decoded: Result<Placed, _> = Json::decode(code(&text).as_bytes());
        assert!(decoded.is_err(), "{why}: {text}");
    }
}

#[stream_spec(name = "orders.entries", version = 1, key = String)]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    order: u64,
    cents: i64,
    note: Option<String>,
}

const ENTRY: Entry = Entry { order: 7, cents: -990, note: None };

#[stream_spec(name = "orders.legacy", version = 1, key = String, address = "legacy-orders")]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Legacy {
    order: u64,
    cents: i64,
    note: Option<String>,
}

type Failure = Box<dyn std::error::Error>;
type Fields = Vec<(String, String)>;

/// A broker whose clock and randomness are the page's.
fn broker(server: &Redis) -> Result<Broker<RedisBackend>, Failure> {
    let config = Config::new(Namespace::new("shop", "prod")?)
        .clock(|| SystemTime::UNIX_EPOCH + Duration::from_millis(1_517_981_634_040))
        .random(|| u64::from_ne_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]));
    Ok(Broker::new(RedisBackend::new(server.url())?, config)?)
}

fn fields(table: Vec<[String; 2]>) -> Fields {
    table.into_iter().map(|[name, value]| (code(&name).to_owned(), code(&value).to_owned())).collect()
}

/// The entries of a log, past the library.
fn entries(connection: &mut redis::Connection, log: &str) -> Result<Vec<(String, Fields)>, Failure> {
    let found: Vec<(String, Vec<String>)> = redis::cmd("XRANGE").arg(log).arg("-").arg("+").query(connection)?;
    let pairs = |words: Vec<String>| words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Ok(found.into_iter().map(|(id, words)| (id, pairs(words))).collect())
}

/// The keys on the server and their types.
fn keys(connection: &mut redis::Connection) -> Result<BTreeMap<String, String>, Failure> {
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(connection)?;
    let typed = |name: String| Ok((name.clone(), redis::cmd("TYPE").arg(&name).query(connection)?));
    names.into_iter().map(typed).collect()
}

#[tokio::test]
async fn keys_go_to_the_partitions_on_the_page() -> Result<(), Failure> {
    let server = Redis::start("wire-partitions");
    let broker = broker(&server)?;
    let stream = Entry::stream(&broker)?;
    for [key, text, partitions, wanted] in table(["key", "text", "partitions", "partition"]) {
        let (partitions, wanted): (u32, u32) = (partitions.parse()?, wanted.parse()?);
        assert_eq!(partition_of(code(&text).as_bytes(), partitions), wanted, "{text}");
        let key: String = serde_json::from_str(code(&key))?;
        stream.ensure(StreamSettings::new().partitions(partitions)).await?;
        let position = stream.append(&key, &ENTRY).await?.position.ok_or("Redis tells positions")?;
        assert_eq!(position.partition(), wanted, "{text}");
        let log = format!("{{shop.prod.stream.orders.entries.v1.p{wanted}}}:log");
        let [(id, fields)] = &entries(&mut server.connect(), &log)?[..] else { panic!("not one entry in {log}") };
        assert_eq!(position.to_string(), format!("{wanted}:{id}"));
        assert!(fields.contains(&("ce_partitionkey".to_owned(), code(&text).to_owned())), "{fields:?}");
        stream.delete().await?;
    }
    Ok(())
}

#[tokio::test]
async fn records_are_those_on_the_page() -> Result<(), Failure> {
    let server = Redis::start("wire-records");
    let mut connection = server.connect();
    let broker = broker(&server)?;
    let stream = Entry::stream(&broker)?;
    stream.ensure(StreamSettings::new()).await?;
    stream.append(&"eu-1".to_owned(), &ENTRY).await?;
    let key = "a.b".to_owned();
    let append = Append::new(&key, &ENTRY).id("order-7");
    let traced = append.trace_context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "congo=t61rcWkgMzE");
    stream.append_with(traced.header("origin", "wéb")).await?;

    let wanted = [
        fields(table(["field of a plain append", "value"])),
        fields(table(["field of an append with headers", "value"])),
    ];
    let log = "{shop.prod.stream.orders.entries.v1.p0}:log";
    let written: Vec<_> = entries(&mut connection, log)?.into_iter().map(|(_, fields)| fields).collect();
    assert_eq!(written, wanted);

    // Added by hand, the same fields are the same records, in this and in the other order.
    for fields in &wanted {
        for fields in [fields.clone(), fields.iter().rev().cloned().collect()] {
            redis::cmd("XADD").arg(log).arg("*").arg(&fields).query::<String>(&mut connection)?;
        }
    }
    let read = stream.read(Start::Earliest, 6, Duration::ZERO).await?;
    assert_eq!(read.len(), 6);
    let shown = |delivery: &Delivery<Entry>| {
        assert_eq!(delivery.value().ok(), Some(&ENTRY));
        assert_eq!(delivery.source(), Some("/shop/prod"));
        assert_eq!(delivery.event_type(), Some("orders.entries.v1"));
        told(delivery)
    };
    for (own, by_hand) in [(0, 2), (1, 4)] {
        assert_eq!(shown(&read[own]), shown(&read[by_hand]));
        // Headers keep their order.
        assert_eq!(shown(&read[own])[..4], shown(&read[by_hand + 1])[..4]);
        assert_eq!(read[own].headers().get("origin"), read[by_hand + 1].headers().get("origin"));
    }
    assert_eq!(read[1].key()?, "a.b");
    assert_eq!(read[1].headers().get("tracestate"), Some("congo=t61rcWkgMzE"));
    Ok(())
}

#[tokio::test]
async fn records_from_elsewhere_are_read_as_on_the_page() -> Result<(), Failure> {
    let server = Redis::start("wire-elsewhere");
    let mut connection = server.connect();
    let broker = broker(&server)?;
    let stream = Legacy::stream(&broker)?;
    let rows = table(["command", "key", "id", "time", "content type", "headers", "payload"]);
    for [command, ..] in &rows {
        let words: Vec<_> = code(command).split(' ').collect();
        redis::cmd(words[0]).arg(&words[1..]).query::<String>(&mut connection)?;
    }
    // Nobody has ensured it: it is there because others write it.
    let read = stream.read(Start::Earliest, rows.len(), Duration::ZERO).await?;
    assert_eq!(read.len(), rows.len());
    for ([command, wanted @ ..], delivery) in rows.iter().zip(&read) {
        let wanted: Vec<_> = wanted.iter().map(|cell| code(cell)).collect();
        assert_eq!(told(delivery), wanted[..], "{command}");
    }
    let names: Vec<_> = keys(&mut connection)?.into_keys().collect();
    assert_eq!(names, ["legacy-orders"], "reading makes nothing");
    Ok(())
}

/// What a delivery has, in the words of the page's table.
fn told<T: StreamSpec<Key = String>>(delivery: &Delivery<T>) -> [String; 6] {
    fn or_none(value: Option<impl Display>) -> String {
        value.map_or_else(|| "none".to_owned(), |value| value.to_string())
    }
    let key = match (delivery.key_bytes(), delivery.key()) {
        (None, Err(_)) => "none".to_owned(),
        (Some(_), Err(_)) => "refused".to_owned(),
        (_, Ok(key)) => format!("{key:?}"),
    };
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_millis()).ok();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers: Vec<_> = delivery.headers().iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    [
        key,
        or_none(delivery.id()),
        or_none(delivery.produced_at().and_then(since)),
        or_none(delivery.content_type()),
        or_none(Some(headers.join(" ")).filter(|headers| !headers.is_empty())),
        if delivery.value().is_ok() { "decodes" } else { "refused" }.to_owned(),
    ]
}

#[tokio::test]
async fn a_streams_keys_are_those_on_the_page() -> Result<(), Failure> {
    let server = Redis::start("wire-keys");
    let mut connection = server.connect();
    let broker = broker(&server)?;
    let stream = Entry::stream(&broker)?;
    stream.ensure(StreamSettings::new().partitions(2)).await?;
    let key = "eu-1".to_owned();
    let first = stream.append_with(Append::new(&key, &ENTRY).id("order-7")).await?.position;
    let first = first.ok_or("Redis tells positions")?.to_string();
    let wanted: BTreeMap<_, _> = fields(table(["key of two partitions", "type"])).into_iter().collect();
    assert_eq!(keys(&mut connection)?, wanted);
    let address = "{shop.prod.stream.orders.entries.v1}";
    let noted: String = redis::cmd("HGET").arg(format!("{address}:ids")).arg("order-7").query(&mut connection)?;
    assert_eq!(noted, first.replace(':', " "));
    let stored: u128 =
        redis::cmd("ZSCORE").arg(format!("{address}:ids:times")).arg("order-7").query(&mut connection)?;
    assert!(first.contains(&format!(":{stored}-")), "{first} was stored at {stored}, by the same clock");
    stream.delete().await?;
    assert_eq!(keys(&mut connection)?, BTreeMap::new());

    let legacy = Legacy::stream(&broker)?;
    legacy.ensure(StreamSettings::new()).await?;
    let entry = Legacy { order: 7, cents: -990, note: None };
    legacy.append_with(Append::new(&key, &entry).id("order-7")).await?;
    let wanted: BTreeMap<_, _> = fields(table(["key of an address of its own", "type"])).into_iter().collect();
    assert_eq!(keys(&mut connection)?, wanted);
    Ok(())
}

#[tokio::test]
async fn settings_are_those_on_the_page() -> Result<(), Failure> {
    macro_rules! settings {
        ($($settings:expr),+ $(,)?) => { [$((stringify!($settings), $settings)),+] };
    }
    let settings = settings![
        StreamSettings::new(),
        StreamSettings::new().partitions(2).max_len(1_000).max_age(Duration::from_hours(1)),
        StreamSettings::new().dedup_window(Duration::from_millis(1_500)),
    ];
    let server = Redis::start("wire-settings");
    let broker = broker(&server)?;
    let stream = Entry::stream(&broker)?;
    let names = ["`layout`", "`partitions`", "`max_len`", "`max_age_ms`", "`dedup_window_ms`"];
    let rows = table(["settings", names[0], names[1], names[2], names[3], names[4]]);
    assert_eq!(rows.len(), settings.len());
    for ([shown, cells @ ..], (source, settings)) in rows.iter().zip(settings) {
        assert_eq!(code(shown), source);
        stream.ensure(settings).await?;
        let meta = "{shop.prod.stream.orders.entries.v1}:meta";
        let held: BTreeMap<String, String> = redis::cmd("HGETALL").arg(meta).query(&mut server.connect())?;
        let wanted = names.map(code).into_iter().zip(cells.iter().map(|cell| code(cell)));
        assert_eq!(held, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        stream.delete().await?;
    }
    Ok(())
}
