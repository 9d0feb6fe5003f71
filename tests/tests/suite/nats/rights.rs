//! Users who may not do everything.

use super::login::whole_text;
use super::*;

/// Alice may publish and subscribe below `allowed`, and nothing else.
fn permissions(allowed: &str) -> String {
    let subject = channel(allowed);
    format!(
        "authorization {{ users: [\n{{ user: alice, password: secret, permissions: {{\n\
         publish: [\"{subject}\"], subscribe: [\"{subject}\"] }} }} ] }}"
    )
}

async fn restricted(kind: NatsKind) -> (harness::Nats, Broker<Nats>) {
    let server = harness::Nats::start(kind, NatsOptions::default().config(permissions("a"))).await;
    let broker = broker(server.url_as("alice:secret"));
    (server, broker)
}

async fn a_publish_without_the_right_is_told_to_its_own_caller(kind: NatsKind) {
    let (_server, broker) = restricted(kind).await;
    let topic = Counted::topic(&broker).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    let failed = topic.publish(&"hunter2".to_owned(), &counted(2)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{failed:?}");
    assert!(!whole_text(&failed).contains("hunter2"), "{}", whole_text(&failed));
    assert!(whole_text(&failed).contains("`address()` tells it"), "{}", whole_text(&failed));
    assert_eq!(receive(&mut subscription).await, 1);

    // One batch, and many callers at once.
    let events: Vec<_> =
        (0..4_000).map(|number| (if number % 3 == 0 { "a" } else { "b" }.to_owned(), counted(number))).collect();
    let heard = topic.publish_all(events.iter().map(|(key, event)| (key, event))).await.unwrap();
    for ((key, _), heard) in events.iter().zip(heard) {
        assert_eq!(heard.map_err(|failed| failed.kind()).err(), (key == "b").then_some(ErrorKind::Forbidden));
    }
    let calls = events.into_iter().take(500).map(|(key, event)| {
        let topic = topic.clone();
        tokio::spawn(async move { (key.clone(), topic.publish(&key, &event).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (key, heard) = within("a publish returns", call).await.unwrap();
        assert_eq!(heard.map_err(|failed| failed.kind()).err(), (key == "b").then_some(ErrorKind::Forbidden));
    }
}

#[tokio::test]
async fn a_publish_without_the_right_is_told_to_its_own_caller_by_nats_2_10() {
    a_publish_without_the_right_is_told_to_its_own_caller(NatsKind::Nats210).await;
}

#[tokio::test]
async fn a_publish_without_the_right_is_told_to_its_own_caller_by_nats_2_15() {
    a_publish_without_the_right_is_told_to_its_own_caller(NatsKind::Nats215).await;
}

async fn a_subscription_without_the_right_fails_alone(kind: NatsKind) {
    let (server, broker) = restricted(kind).await;
    let topic = Counted::topic(&broker).unwrap();
    let [a, b] = ["a", "b"].map(str::to_owned);
    let mut allowed = topic.subscribe(&a).await.unwrap();
    for _ in 0..3 {
        let failed = within("it is refused", topic.subscribe(&b)).await.unwrap_err();
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{failed:?}");
        let failed = within("it is refused", topic.subscribe_keys(&a, [&b])).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Forbidden, "{failed:?}");
        let failed = within("it is refused", topic.subscribe_all()).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Forbidden, "{failed:?}");
    }
    publish(&topic, "a", 1).await;
    assert_eq!(receive(&mut allowed).await, 1);
    let listed = server.monitor("/connz").await;
    let connections = listed["connections"].as_array().unwrap();
    let subscriber = connections.iter().find(|one| one["name"] == "tidings subscriber").unwrap();
    assert_eq!(subscriber["subscriptions"].as_u64(), Some(1), "{listed}");
}

#[tokio::test]
async fn a_subscription_without_the_right_fails_alone_on_nats_2_10() {
    a_subscription_without_the_right_fails_alone(NatsKind::Nats210).await;
}

#[tokio::test]
async fn a_subscription_without_the_right_fails_alone_on_nats_2_15() {
    a_subscription_without_the_right_fails_alone(NatsKind::Nats215).await;
}

#[tokio::test]
async fn a_subscription_whose_right_is_taken_away_ends_with_a_cause() {
    let options = NatsOptions::default().config(permissions(">"));
    let mut server = harness::Nats::start(NatsKind::Nats215, options).await;
    let topic = Counted::topic(&broker(server.url_as("alice:secret"))).unwrap();
    let [a, b] = ["a", "b"].map(str::to_owned);
    let mut kept = topic.subscribe(&a).await.unwrap();
    let mut taken = topic.subscribe(&b).await.unwrap();
    server.reload(vec![permissions("a")]);
    assert_eq!(ending(&mut taken).await.cause(), Some(Cause::Disconnected));
    publish(&topic, "a", 1).await;
    assert_eq!(receive(&mut kept).await, 1);
    assert_eq!(topic.subscribe(&b).await.unwrap_err().kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn what_a_connection_has_too_many_of_is_refused() {
    let options = NatsOptions::default().config("max_subscriptions: 3");
    let server = harness::Nats::start(NatsKind::Nats215, options).await;
    let topic = Counted::topic(&broker(server.url())).unwrap();
    let mut held = Vec::new();
    for key in 0..3 {
        held.push(topic.subscribe(&key.to_string()).await.unwrap());
    }
    let failed = within("it is refused", topic.subscribe(&"a".to_owned())).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{failed:?}");
    publish(&topic, "0", 1).await;
    assert_eq!(receive(&mut held[0]).await, 1);
}
