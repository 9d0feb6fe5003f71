//! What is particular to NATS, on real servers. The conformance suite has the rest.

use std::time::Duration;

use async_nats::ConnectOptions;
use serde::{Deserialize, Serialize};
use tidings::backend::Nats;
use tidings::{
    Broker, Cause, Config, Error, ErrorKind, Limits, Namespace, Outcome, SubscribeOptions, Subscription, Topic, topic,
};
use tidings_tests::harness::{self, Direction, NatsKind, NatsOptions, Proxy, within};

mod attacks;
mod durables;
mod faults;
mod login;
mod rights;
mod streams;

/// Short enough that a test sees a dead server soon.
const HEARTBEAT: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(10);

#[topic(name = "nats.counted", version = 1, key = String)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Counted {
    number: u64,
    #[serde(default)]
    filler: String,
}

fn counted(number: u64) -> Counted {
    Counted { number, filler: String::new() }
}

fn broker(url: impl AsRef<str>) -> Broker<Nats> {
    broker_of(Nats::new(url).unwrap(), Limits::default())
}

fn broker_of(nats: Nats, limits: Limits) -> Broker<Nats> {
    let limits = limits.heartbeat(HEARTBEAT);
    Broker::new(nats, Config::new(Namespace::new("shop", "test").unwrap()).limits(limits)).unwrap()
}

async fn server() -> harness::Nats {
    harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await
}

/// The channel of a key.
fn channel(key: &str) -> String {
    format!("shop.test.topic.nats.counted.v1.{key}")
}

async fn receive(subscription: &mut Subscription<Counted, Nats>) -> u64 {
    within("a message comes", subscription.receive()).await.unwrap().number
}

/// The error that ends it, past what was received before.
async fn ending(subscription: &mut Subscription<Counted, Nats>) -> Error {
    within("the subscription ends", async {
        loop {
            if let Err(error) = subscription.receive().await {
                return error;
            }
        }
    })
    .await
}

async fn publish(topic: &Topic<Counted, Nats>, key: &str, number: u64) {
    within("a publish returns", topic.publish(&key.to_owned(), &counted(number))).await.unwrap();
}

async fn refused(topic: &Topic<Counted, Nats>, key: &str) -> (ErrorKind, Outcome) {
    let failed = within("a publish returns", topic.publish(&key.to_owned(), &counted(0))).await.unwrap_err();
    (failed.kind(), failed.outcome())
}

/// Another client.
async fn other(server: &harness::Nats) -> async_nats::Client {
    ConnectOptions::new().name("other").connect(server.url()).await.unwrap()
}

#[tokio::test]
async fn every_supported_server_carries_topics() {
    for (kind, name) in [(NatsKind::Nats210, "nats 2.10."), (NatsKind::Nats215, "nats 2.15.")] {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let broker = broker(server.url());
        let topic = Counted::topic(&broker).unwrap();
        let checked = broker.check(DEADLINE).await.unwrap();
        assert!(checked.server.starts_with(name), "{checked:?}");
        assert_eq!((checked.problems, checked.unchecked), (Vec::new(), Vec::new()));

        assert_eq!(topic.publish(&"a".to_owned(), &counted(1)).await.unwrap().count(), None);
        let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
        publish(&topic, "a", 2).await;
        let batch: Vec<_> = (4..4_000).map(|number| ("b".to_owned(), counted(number))).collect();
        for heard in topic.publish_all(batch.iter().map(|(key, event)| (key, event))).await.unwrap() {
            assert_eq!(heard.unwrap().count(), None);
        }
        assert_eq!(receive(&mut subscription).await, 2);
        within("it unsubscribes", subscription.close()).await;
        broker.close(DEADLINE).await.unwrap();
    }
}

/// Case G20.
#[tokio::test]
async fn a_subscription_is_ready_when_it_returns() {
    let server = server().await;
    let topic = Counted::topic(&broker(server.url())).unwrap();
    let other = other(&server).await;
    // Otherwise each subscription waits for a connection of its own.
    let _kept = topic.subscribe(&"kept".to_owned()).await.unwrap();
    for number in 0..500 {
        let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
        other.publish(channel("a"), format!("{{\"number\":{number}}}").into()).await.unwrap();
        assert_eq!(receive(&mut subscription).await, number);
    }
}

/// Cases G19, D09 and I02.
#[tokio::test]
async fn a_slow_subscription_overflows_alone() {
    let server = server().await;
    let topic = Counted::topic(&broker(server.url())).unwrap();
    let key = "a".to_owned();
    let with = |messages| topic.with_options(SubscribeOptions::new().buffer_messages(messages)).unwrap();
    let mut slow = with(10).subscribe(&key).await.unwrap();
    let mut other = with(2_000).subscribe(&key).await.unwrap();
    let mut all = with(2_000).subscribe_all().await.unwrap();
    let events: Vec<_> = (0..1_000).map(counted).collect();
    for heard in topic.publish_all(events.iter().map(|event| (&key, event))).await.unwrap() {
        heard.unwrap();
    }
    for number in 0..1_000 {
        assert_eq!(receive(&mut other).await, number);
        assert_eq!(within("a message comes", all.receive()).await.unwrap().1.number, number);
    }
    for number in 0..10 {
        assert_eq!(receive(&mut slow).await, number);
    }
    let ended = ending(&mut slow).await;
    assert_eq!(ended.cause(), Some(Cause::Overflow));
    assert_eq!(ending(&mut slow).await.cause(), Some(Cause::Overflow), "it sticks");
}

#[tokio::test]
async fn closing_what_has_overflowed_waits_for_the_server() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let limits = Limits::default().buffer_messages(1);
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
    let slow = Broker::new(Nats::new(format!("nats://{}", proxy.address())).unwrap(), config).unwrap();
    let topic = Counted::topic(&slow).unwrap();
    let mut held = topic.subscribe(&"a".to_owned()).await.unwrap();
    let mut behind = topic.subscribe(&"b".to_owned()).await.unwrap();
    let other = Counted::topic(&broker(server.url())).unwrap();
    proxy.stall(Direction::ToServer, true);
    for (number, key) in ["a", "a", "b"].into_iter().enumerate() {
        publish(&other, key, number as u64).await;
    }
    assert_eq!(receive(&mut behind).await, 2);
    assert_eq!(ending(&mut held).await.cause(), Some(Cause::Overflow));
    let mut closing = std::pin::pin!(held.close());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut closing).await;
    assert!(early.is_err(), "the server hasn't been told to unsubscribe yet");
    proxy.stall(Direction::ToServer, false);
    within("it closes", closing).await;
}

#[tokio::test]
async fn what_comes_over_several_keys_is_in_the_servers_order() {
    let server = server().await;
    let limits = Limits::default().buffer_messages(4_096);
    let topic = Counted::topic(&broker_of(Nats::new(server.url()).unwrap(), limits)).unwrap();
    let keys = ["a", "b", "c"].map(str::to_owned);
    let mut some = topic.subscribe_keys(&keys[0], &keys[1..]).await.unwrap();
    let mut all = topic.subscribe_all().await.unwrap();
    let other = other(&server).await;
    for number in 0..3_000 {
        let key = &keys[number * number % 3];
        other.publish(channel(key), format!("{{\"number\":{number}}}").into()).await.unwrap();
    }
    for number in 0..3_000 {
        let expected = (keys[number * number % 3].clone(), counted(number as u64));
        assert_eq!(within("a message comes", some.receive()).await.unwrap(), expected);
        assert_eq!(within("a message comes", all.receive()).await.unwrap(), expected);
    }
}

/// Cases D05 and D06.
#[tokio::test]
async fn each_handle_gets_its_own_copy_and_dropping_one_leaves_the_others() {
    let server = server().await;
    let topic = Counted::topic(&broker(server.url())).unwrap();
    let key = "a".to_owned();
    let mut first = topic.subscribe(&key).await.unwrap();
    let mut second = topic.subscribe(&key).await.unwrap();
    let mut all = topic.subscribe_all().await.unwrap();
    let listed = server.monitor("/connz").await;
    let connections = listed["connections"].as_array().unwrap();
    assert_eq!(connections.iter().filter(|one| one["name"] == "tidings subscriber").count(), 1, "{listed}");

    publish(&topic, "a", 1).await;
    assert_eq!((receive(&mut first).await, receive(&mut second).await), (1, 1));
    let (of, event) = within("a message comes", all.receive()).await.unwrap();
    assert_eq!((of, event.number), (key.clone(), 1));

    within("the first is closed", first.close()).await;
    publish(&topic, "a", 2).await;
    assert_eq!(receive(&mut second).await, 2);
    assert_eq!(within("a message comes", all.receive()).await.unwrap().1.number, 2);
    within("the pattern is closed", all.close()).await;
    publish(&topic, "a", 3).await;
    assert_eq!(receive(&mut second).await, 3);
}

#[tokio::test]
async fn what_no_line_of_the_protocol_holds_is_refused_before_it_is_sent() {
    let server = server().await;
    let limits = Limits::default().key_bytes(4_096);
    let topic = Counted::topic(&broker_of(Nats::new(server.url()).unwrap(), limits)).unwrap();
    let fits = "f".repeat(3_500 - channel("").len());
    let long = format!("{fits}f");
    let mut subscription = topic.subscribe(&fits).await.unwrap();
    assert_eq!(refused(&topic, &long).await, (ErrorKind::Invalid, Outcome::NotApplied));
    let failed = topic.subscribe(&long).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Invalid, Outcome::NotApplied));
    let text = login::whole_text(&failed);
    assert!(text.contains("3501 bytes") && !text.contains("ffff"), "{text}");
    let event = counted(1);
    let heard = topic.publish_all([(&long, &event), (&fits, &event), (&long, &event)]).await.unwrap();
    let kinds: Vec<_> = heard.into_iter().map(|heard| heard.map_err(|failed| failed.kind()).err()).collect();
    assert_eq!(kinds, [Some(ErrorKind::Invalid), None, Some(ErrorKind::Invalid)]);
    assert_eq!(receive(&mut subscription).await, 1);
}

#[tokio::test]
async fn what_is_larger_than_the_server_takes_is_refused_and_its_neighbours_are_published() {
    let options = NatsOptions::default().config("max_payload: 1000");
    let server = harness::Nats::start(NatsKind::Nats215, options).await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let checked = broker.check(DEADLINE).await.unwrap();
    assert!(checked.problems.iter().any(|problem| problem.contains("`max_payload`")), "{checked:?}");

    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    let large = Counted { number: 0, filler: "x".repeat(1_000) };
    let key = "a".to_owned();
    let failed = topic.publish(&key, &large).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied), "{failed:?}");
    let connected = async || server.monitor("/varz").await["total_connections"].as_u64();
    let before = connected().await;
    let small: Vec<_> = (0..100).map(counted).collect();
    let events = small.iter().flat_map(|small| [(&key, &large), (&key, small)]);
    for (place, heard) in topic.publish_all(events).await.unwrap().into_iter().enumerate() {
        match heard {
            Ok(_) => assert_eq!(place % 2, 1),
            Err(failed) => assert_eq!((place % 2, failed.kind()), (0, ErrorKind::TooLarge), "{failed:?}"),
        }
    }
    for number in 0..64 {
        assert_eq!(receive(&mut subscription).await, number);
    }
    assert_eq!(connected().await, before, "no connection was closed for it");
}

#[tokio::test]
async fn a_server_without_jetstream_has_topics() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default().core_only()).await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    assert_eq!(broker.check(DEADLINE).await.unwrap().problems, Vec::<String>::new());
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    assert_eq!(receive(&mut subscription).await, 1);
}

#[tokio::test]
async fn futures_stay_small() {
    let broker = broker("nats://localhost");
    let topic = Counted::topic(&broker).unwrap();
    let event = counted(1);
    let key = "a".to_owned();
    let run =
        topic.supervise(&key, tidings::SupervisePolicy::default()).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    let sizes = (std::mem::size_of_val(&topic.publish(&key, &event)), std::mem::size_of_val(&run));
    assert!(sizes.0 <= 1_536 && sizes.1 <= 4_096, "{sizes:?}");
}
