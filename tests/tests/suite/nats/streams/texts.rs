//! What stands in docs/wire.md, on a real server, byte for byte.

use std::time::SystemTime;

use tidings::Limits;

use super::*;

#[stream_spec(name = "orders.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
struct Placed {
    order: u64,
    cents: i64,
    note: Option<String>,
}

#[stream_spec(name = "legacy", version = 1, key = String, address = "LEGACY")]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Legacy {
    order: u64,
}

const PLACED: Placed = Placed { order: 7, cents: -990, note: None };

/// The broker of the page's vectors: its namespace, its clock and its randomness.
fn page(url: String) -> Broker<Nats> {
    let config = Config::new(Namespace::new("shop", "prod").unwrap())
        .limits(Limits::default())
        .clock(|| SystemTime::UNIX_EPOCH + Duration::from_millis(1_517_981_634_040))
        .random(|| u64::from_be_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]).swap_bytes());
    Broker::new(Nats::new(url).unwrap(), config).unwrap()
}

/// Headers and payload as the server has them, in their order.
async fn raw(server: &harness::Nats, stream: &str, sequence: u64) -> (String, String, String) {
    let other = other(server).await;
    let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
    let answer = other.request(subject, format!("{{\"seq\":{sequence}}}").into()).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
    let text = |field: &str| {
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let text = answer["message"][field].as_str().unwrap_or_default();
        let (mut held, mut count, mut bytes) = (0_u32, 0, Vec::new());
        for letter in text.chars().take_while(|letter| *letter != '=') {
            held = held << 6 | u32::try_from(letters.find(letter).unwrap()).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(u8::try_from(held >> count & 0xff).unwrap());
                held &= (1 << count) - 1;
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    (answer["message"]["subject"].as_str().unwrap().to_owned(), text("hdrs"), text("data"))
}

#[tokio::test]
async fn records_are_what_the_page_says() {
    const PAGE: &str = include_str!("../../../../../docs/wire.md");
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let stream = Placed::stream(&page(server.url())).unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        stream.append(&"eu-1".to_owned(), &PLACED).await.unwrap();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let key = "a.b".to_owned();
        let append = Append::new(&key, &PLACED).id("order-7").trace_context(parent, "congo=t61rcWkgMzE");
        stream.append_with(append.header("origin", "wéb")).await.unwrap();
        for sequence in [1, 2] {
            let (subject, head, data) = raw(&server, "shop_prod_stream_orders_entries_v1", sequence).await;
            let shown = format!("subject: {subject}\n\n{}{data}", head.replace("\r\n", "\n"));
            assert!(PAGE.contains(&shown), "the page lacks\n{shown}");
        }
        // The settings as they are on the server.
        let there =
            jetstream::new(other(&server).await).get_stream("shop_prod_stream_orders_entries_v1").await.unwrap();
        let config = &there.cached_info().config;
        assert_eq!(config.subjects, ["shop.prod.stream.orders.entries.v1", "shop.prod.stream.orders.entries.v1.>"]);
        assert_eq!((config.max_messages, config.max_bytes, config.max_age), (-1, -1, Duration::ZERO));
        assert_eq!((config.duplicate_window, config.num_replicas), (Duration::from_mins(2), 1));
        assert_eq!(config.storage, jetstream::stream::StorageType::File);
    }
}

#[tokio::test]
async fn a_stream_of_others_is_read_and_appended_to() {
    let server = server().await;
    let context = past(&server).await;
    let config = jetstream::stream::Config {
        name: "LEGACY".to_owned(),
        subjects: vec!["LEGACY.>".to_owned(), "elsewhere".to_owned()],
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    let mut quoted = async_nats::HeaderMap::new();
    for (name, value) in
        [("CE-Id", "17"), ("ce-origin", "\"w b\""), ("ce-time", "2018-04-05T17:31:00+02:00"), ("x", "y")]
    {
        quoted.append(name, value);
    }
    context.publish("elsewhere", "{\"order\":1}".into()).await.unwrap().await.unwrap();
    context.publish("LEGACY.eu%2D1", "{\"order\":2}".into()).await.unwrap().await.unwrap();
    context.publish_with_headers("LEGACY.eu-1", quoted, "{\"order\":3}".into()).await.unwrap().await.unwrap();
    context.publish("LEGACY.a", "no JSON".into()).await.unwrap().await.unwrap();

    let broker = broker(server.url());
    let stream = Legacy::stream(&broker).unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
    stream.append(&"eu-1".to_owned(), &Legacy { order: 5 }).await.unwrap();
    let read = within("reading", stream.read(Start::Earliest, 10, Duration::ZERO)).await.unwrap();
    assert_eq!(read.len(), 5);
    assert_eq!(read[0].value().unwrap(), &Legacy { order: 1 });
    assert!(read[0].key_bytes().is_none() && read[0].id().is_none() && read[0].content_type().is_none());
    // A key that wouldn't be written so is none.
    assert!(read[1].key().is_err() && read[1].value().is_ok());
    assert_eq!(read[2].key().unwrap(), "eu-1");
    assert_eq!(read[2].id().map(ToString::to_string), Some("17".to_owned()));
    assert_eq!(read[2].headers().get("origin"), Some("w b"));
    assert_eq!(read[2].headers().iter().len(), 1);
    let time = SystemTime::UNIX_EPOCH + Duration::from_mins(25_382_371);
    assert_eq!(read[2].produced_at(), Some(time));
    assert!(read[3].value().is_err(), "poison in its place");
    assert_eq!((read[4].value().unwrap(), read[4].key().unwrap()), (&Legacy { order: 5 }, "eu-1".to_owned()));
}
