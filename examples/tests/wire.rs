//! Holds the tables of `docs/wire.md` to what the library sends.

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidings::backend::Memory;
use tidings::capability::{Backend, BackendError, Checked, Feed, Host, Outgoing, PubSub, Wanted};
use tidings::codec::{Decode, Encode, Json};
use tidings::{Broker, Config, Namespace, Topic, TopicKey, TopicSpec, topic};

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

impl Backend for Recorder {
    type Client = Self;

    fn system(&self) -> &'static str {
        "recorder"
    }

    fn client(&self, _: Host) -> Result<Self, Vec<String>> {
        Ok(self.clone())
    }

    async fn check(_: &Self, _: Wanted) -> Result<Checked, BackendError> {
        Ok(Checked::new("recorder"))
    }

    async fn close(_: &Self) {}
}

impl PubSub for Recorder {
    type Subscription = <Memory as PubSub>::Subscription;

    async fn publish(client: &Self, message: Outgoing) -> Result<Option<u64>, BackendError> {
        client.sent.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        Memory::publish(&client.memory, message).await
    }

    async fn publish_all(client: &Self, messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        client.sent.lock().unwrap_or_else(PoisonError::into_inner).extend(messages.iter().cloned());
        Memory::publish_all(&client.memory, messages).await
    }

    async fn subscribe(client: &Self, channels: Vec<Arc<str>>, feed: Feed) -> Result<Self::Subscription, BackendError> {
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
