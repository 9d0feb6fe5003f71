//! What is particular to Redis and Valkey, on real servers. The conformance suite has the rest.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend::Redis;
use tidings::{Broker, Cause, Config, ErrorKind, Limits, Namespace, Outcome, Subscription, Topic, topic};
use tidings_tests::harness::{Direction, Kind, Proxy, RedisOptions, Server, within};

mod attacks;
mod cluster;
mod faults;
mod login;
mod rights;
mod streams;
mod texts;

/// Short enough that a test sees a dead server soon.
const HEARTBEAT: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(10);

#[topic(name = "redis.counted", version = 1, key = String)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Counted {
    number: u64,
    #[serde(default)]
    filler: String,
}

fn counted(number: u64) -> Counted {
    Counted { number, filler: String::new() }
}

fn broker(url: impl AsRef<str>) -> Broker<Redis> {
    broker_of(Redis::new(url).unwrap(), Limits::default())
}

fn broker_of(redis: Redis, limits: Limits) -> Broker<Redis> {
    limited(redis, limits.heartbeat(HEARTBEAT))
}

fn broker_beating(url: impl AsRef<str>, heartbeat: Duration) -> Broker<Redis> {
    limited(Redis::new(url).unwrap(), Limits::default().heartbeat(heartbeat))
}

fn limited(redis: Redis, limits: Limits) -> Broker<Redis> {
    Broker::new(redis, Config::new(Namespace::new("shop", "test").unwrap()).limits(limits)).unwrap()
}

async fn server() -> Server {
    Server::start(Kind::Redis8, RedisOptions::default()).await
}

async fn receive(subscription: &mut Subscription<Counted, Redis>) -> u64 {
    within("a message comes", subscription.receive()).await.unwrap().number
}

async fn cause(subscription: &mut Subscription<Counted, Redis>) -> Cause {
    within("the subscription ends", async {
        loop {
            if let Err(error) = subscription.receive().await {
                return error.cause().unwrap();
            }
        }
    })
    .await
}

async fn publish(topic: &Topic<Counted, Redis>, key: &str, number: u64) -> Option<u64> {
    within("a publish returns", topic.publish(&key.to_owned(), &counted(number))).await.unwrap().count()
}

#[tokio::test]
async fn every_supported_server_carries_topics_over_tcp_and_a_unix_socket() {
    for (kind, name) in [(Kind::Redis7, "redis 7.0."), (Kind::Redis8, "redis 8."), (Kind::Valkey8, "valkey 8.1.")] {
        let server = Server::start(kind, RedisOptions::default()).await;
        for url in [server.url(), format!("unix:{}", server.unix_socket().display()), format!("{}/3", server.url())] {
            let broker = broker(url);
            let topic = Counted::topic(&broker).unwrap();
            let checked = broker.check(DEADLINE).await.unwrap();
            assert!(checked.server.starts_with(name), "{checked:?}");
            assert_eq!(checked.problems, Vec::<String>::new());

            assert_eq!(publish(&topic, "a", 1).await, Some(0));
            let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
            assert_eq!(publish(&topic, "a", 2).await, Some(1));
            assert_eq!(publish(&topic, "b", 3).await, Some(0));
            let batch: Vec<_> = (4..2_000).map(|number| ("b".to_owned(), counted(number))).collect();
            for heard in topic.publish_all(batch.iter().map(|(key, event)| (key, event))).await.unwrap() {
                assert_eq!(heard.unwrap().count(), Some(0));
            }
            assert_eq!(receive(&mut subscription).await, 2);
            within("it unsubscribes", subscription.close()).await;
            assert_eq!(publish(&topic, "a", 4).await, Some(0));
            broker.close(DEADLINE).await.unwrap();
        }
    }
}

/// Cases D05 and D06.
#[tokio::test]
async fn each_handle_gets_its_own_copy_and_dropping_one_leaves_the_others() {
    let server = server().await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    let mut first = topic.subscribe(&key).await.unwrap();
    let mut second = topic.subscribe(&key).await.unwrap();
    let mut all = topic.subscribe_all().await.unwrap();
    let clients = server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.text();
    assert_eq!(clients.lines().count(), 1, "{clients}");

    // The server delivers to the exact subscription and to the pattern.
    assert_eq!(publish(&topic, "a", 1).await, Some(2));
    assert_eq!(receive(&mut first).await, 1);
    assert_eq!(receive(&mut second).await, 1);
    let (of, event) = within("a message comes", all.receive()).await.unwrap();
    assert_eq!((of, event.number), (key.clone(), 1));

    within("the first is closed", first.close()).await;
    assert_eq!(publish(&topic, "a", 2).await, Some(2));
    assert_eq!(receive(&mut second).await, 2);
    assert_eq!(within("a message comes", all.receive()).await.unwrap().1.number, 2);

    within("the pattern is closed", all.close()).await;
    assert_eq!(publish(&topic, "a", 3).await, Some(1));
    assert_eq!(receive(&mut second).await, 3);

    within("the last is closed", second.close()).await;
    assert_eq!(publish(&topic, "a", 4).await, Some(0));
}

#[tokio::test]
async fn subscribing_again_while_an_unsubscribe_is_in_flight_misses_nothing() {
    let server = server().await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    let _other = topic.subscribe(&"b".to_owned()).await.unwrap();
    for number in 0..200 {
        let mut subscription = topic.subscribe(&key).await.unwrap();
        assert_eq!(publish(&topic, "a", number).await, Some(1));
        assert_eq!(receive(&mut subscription).await, number);
        drop(subscription);
    }
}

#[tokio::test]
async fn a_cancelled_set_up_leaves_nothing_behind() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let broker = broker_of(Redis::new(proxy.url()).unwrap(), Limits::default().timeout(DEADLINE));
    let topic = Counted::topic(&broker).unwrap();
    let mut kept = topic.subscribe(&"kept".to_owned()).await.unwrap();
    for number in 0..20 {
        let key = "a".to_owned();
        let mut setting_up = std::pin::pin!(topic.subscribe(&key).into_future());
        for _ in 0..number {
            tokio::select! {
                biased;
                _ = &mut setting_up => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    within("nothing is left", async { while publish(&topic, "a", 0).await != Some(0) {} }).await;
    assert_eq!(publish(&topic, "kept", 7).await, Some(1));
    assert_eq!(receive(&mut kept).await, 7);
}

#[tokio::test]
async fn a_slow_subscription_overflows_alone() {
    let server = server().await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    let mut slow = topic.subscribe(&key).await.unwrap();
    let options = tidings::SubscribeOptions::new().buffer_messages(1_000);
    let mut other = topic.with_options(options).unwrap().subscribe(&key).await.unwrap();
    for number in 0..500 {
        assert_eq!(publish(&topic, "a", number).await, Some(1));
    }
    for number in 0..500 {
        assert_eq!(receive(&mut other).await, number);
    }
    for number in 0..64 {
        assert_eq!(receive(&mut slow).await, number);
    }
    assert_eq!(cause(&mut slow).await, Cause::Overflow);
}

#[tokio::test]
async fn closing_what_has_overflowed_waits_for_the_server() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let slow = limited(Redis::new(proxy.url()).unwrap(), Limits::default().buffer_messages(1));
    let topic = Counted::topic(&slow).unwrap();
    let mut held = topic.subscribe(&"a".to_owned()).await.unwrap();
    let mut behind = topic.subscribe(&"b".to_owned()).await.unwrap();
    let other = Counted::topic(&broker(server.url())).unwrap();
    proxy.stall(Direction::ToServer, true);
    for (number, key) in ["a", "a", "b"].into_iter().enumerate() {
        assert_eq!(publish(&other, key, number as u64).await, Some(1));
    }
    assert_eq!(receive(&mut behind).await, 2);
    assert_eq!(cause(&mut held).await, Cause::Overflow);
    let mut closing = std::pin::pin!(held.close());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut closing).await;
    assert!(early.is_err(), "the server hasn't been told to unsubscribe yet");
    proxy.stall(Direction::ToServer, false);
    within("it closes", closing).await;
    assert_eq!(publish(&other, "a", 2).await, Some(0));
}

#[tokio::test]
async fn futures_stay_small() {
    let broker = broker("redis://localhost");
    let topic = Counted::topic(&broker).unwrap();
    let event = counted(1);
    let key = "a".to_owned();
    let run =
        topic.supervise(&key, tidings::SupervisePolicy::default()).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    let sizes = (std::mem::size_of_val(&topic.publish(&key, &event)), std::mem::size_of_val(&run));
    assert!(sizes.0 <= 1_536 && sizes.1 <= 4_096, "{sizes:?}");
}
