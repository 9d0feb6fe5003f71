//! Dead servers, broken connections and lost answers.

use tidings_tests::harness::{Cut, Refusal};
use tokio::time::{Instant, timeout};

use super::*;

fn impatient() -> Limits {
    Limits::default().timeout(Duration::from_millis(300)).buffer_messages(65_536)
}

/// Closes with a subscription there and operations under way, and sees that it is quick and leaves nothing.
async fn closes(broker: Broker<Nats>, topic: &Topic<Counted, Nats>) {
    let waiting: Vec<_> = (0..10)
        .map(|number| {
            let topic = topic.clone();
            tokio::spawn(async move { topic.publish(&"a".to_owned(), &counted(number)).await })
        })
        .collect();
    let subscribing = tokio::spawn({
        let topic = topic.clone();
        async move { topic.subscribe(&"b".to_owned()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let since = Instant::now();
    broker.close(Duration::from_secs(2)).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    let stats = broker.stats();
    assert_eq!((stats.operations, stats.live + stats.setting_up + stats.draining), (0, 0), "{stats:?}");
    for call in waiting {
        let _ = within("a publish ends with the broker", call).await.unwrap();
    }
    let _ = within("a set-up ends with the broker", subscribing).await.unwrap();
}

async fn a_restarted_server_is_told_and_used_again(kind: NatsKind) {
    let mut server = harness::Nats::start(kind, NatsOptions::default()).await;
    let topic = Counted::topic(&broker(server.url())).unwrap();
    let key = "a".to_owned();
    for number in 0..2 {
        let mut subscription = topic.subscribe(&key).await.unwrap();
        publish(&topic, "a", number).await;
        assert_eq!(receive(&mut subscription).await, number);
        server.kill();
        assert_eq!(ending(&mut subscription).await.cause(), Some(Cause::Disconnected));
        within("the connection is gone", async {
            while refused(&topic, "a").await != (ErrorKind::Unavailable, Outcome::NotApplied) {}
        })
        .await;
        let failed = topic.subscribe(&key).await.unwrap_err();
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{failed:?}");
        server.restart().await;
        // What ended stays so, although the server is back.
        assert_eq!(ending(&mut subscription).await.cause(), Some(Cause::Disconnected));
    }
    publish(&topic, "a", 9).await;
}

#[tokio::test]
async fn a_restarted_nats_2_10_is_told_and_used_again() {
    a_restarted_server_is_told_and_used_again(NatsKind::Nats210).await;
}

#[tokio::test]
async fn a_restarted_nats_2_15_is_told_and_used_again() {
    a_restarted_server_is_told_and_used_again(NatsKind::Nats215).await;
}

#[tokio::test]
async fn a_server_that_stands_still_is_noticed_within_two_heartbeats_and_close_does_not_wait() {
    let server = server().await;
    let broker = broker_of(Nats::new(server.url()).unwrap(), impatient());
    let topic = Counted::topic(&broker).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    assert_eq!(receive(&mut subscription).await, 1);
    server.pause().await;
    let paused = Instant::now();
    let ended = ending(&mut subscription).await;
    assert_eq!(ended.cause(), Some(Cause::Disconnected));
    assert!(ended.to_string().contains("no sign of life from one heartbeat to the next"), "{ended}");
    assert!(paused.elapsed() < 3 * HEARTBEAT, "{:?}", paused.elapsed());

    assert_eq!(refused(&topic, "a").await, (ErrorKind::Timeout, Outcome::Unknown));
    // The next has a connection of its own, on which the server says nothing.
    assert_eq!(refused(&topic, "a").await, (ErrorKind::Timeout, Outcome::NotApplied));
    closes(broker, &topic).await;
    server.resume().await;
}

#[tokio::test]
async fn close_does_not_wait_for_a_server_that_reads_nothing() {
    let server = server().await;
    let limits = Limits::default().timeout(DEADLINE).publish_bytes(1 << 20);
    let broker = broker_of(Nats::new(server.url()).unwrap(), limits);
    let topic = Counted::topic(&broker).unwrap();
    publish(&topic, "a", 1).await;
    server.pause().await;
    // More than the system's buffers take.
    let large = Counted { number: 0, filler: "x".repeat(1_000_000) };
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let (topic, large) = (topic.clone(), large.clone());
            tokio::spawn(async move { topic.publish(&"a".to_owned(), &large).await })
        })
        .collect();
    closes(broker, &topic).await;
    for call in waiting {
        let failed = within("a publish ends with the broker", call).await.unwrap().unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Closed, "{failed:?}");
    }
    server.resume().await;
}

#[tokio::test]
async fn close_is_quick_in_front_of_every_kind_of_failure() {
    let mut server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let through = || broker_of(Nats::new(format!("nats://{}", proxy.address())).unwrap(), Limits::default());

    // Nobody listens.
    proxy.refuse(Refusal::StopListening).await;
    let broker = through();
    closes(broker.clone(), &Counted::topic(&broker).unwrap()).await;
    // What is accepted is closed at once.
    proxy.refuse(Refusal::AcceptAndReset).await;
    let broker = through();
    closes(broker.clone(), &Counted::topic(&broker).unwrap()).await;
    // Nothing is answered, from the beginning or later.
    proxy.refuse(Refusal::Off).await;
    let broker = through();
    let topic = Counted::topic(&broker).unwrap();
    let _subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    proxy.stall(Direction::ToClient, true);
    let late = through();
    closes(late.clone(), &Counted::topic(&late).unwrap()).await;
    closes(broker, &topic).await;
    proxy.stall(Direction::ToClient, false);
    // It dies.
    let broker = through();
    let topic = Counted::topic(&broker).unwrap();
    let _subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    server.kill();
    closes(broker, &topic).await;
    assert_eq!(proxy.wait("every connection is closed", |counters| counters.open == 0).await.open, 0);
}

#[tokio::test]
async fn a_server_that_was_never_there_is_told() {
    let port = harness::free_ports(1)[0];
    let broker = broker(format!("nats://127.0.0.1:{port}"));
    let topic = Counted::topic(&broker).unwrap();
    assert_eq!(refused(&topic, "a").await, (ErrorKind::Unavailable, Outcome::NotApplied));
    let failed = topic.subscribe(&"a".to_owned()).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{failed:?}");
    assert_eq!(broker.check(DEADLINE).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn what_is_delivered_is_without_a_hole_until_the_end() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let broker = broker_of(Nats::new(format!("nats://{}", proxy.address())).unwrap(), impatient());
    let topic = Counted::topic(&broker).unwrap();
    let other = other(&server).await;
    for (round, cut) in [Cut::Reset, Cut::Finish].into_iter().cycle().take(6).enumerate() {
        let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
        // In the midst of a message.
        proxy.cut_after(Direction::ToClient, 10_000 + 7 * round, cut);
        for number in 0..2_000 {
            other.publish(channel("a"), format!("{{\"number\":{number}}}").into()).await.unwrap();
        }
        let mut expected = 0;
        let ended = within("the subscription ends", async {
            loop {
                match subscription.receive().await {
                    Ok(event) => assert_eq!(event.number, expected, "a hole"),
                    Err(ended) => return ended,
                }
                expected += 1;
            }
        })
        .await;
        assert_eq!(ended.cause(), Some(Cause::Disconnected));
        assert!(expected > 50 && expected < 2_000, "{expected}");
        // Another connection, and still nothing more for the one that ended.
        let mut next = topic.subscribe(&"b".to_owned()).await.unwrap();
        other.publish(channel("a"), "{\"number\":1}".into()).await.unwrap();
        other.publish(channel("b"), "{\"number\":1}".into()).await.unwrap();
        assert_eq!(receive(&mut next).await, 1);
        assert_eq!(ending(&mut subscription).await.cause(), Some(Cause::Disconnected));
    }
}

#[tokio::test]
async fn a_publish_whose_answer_is_lost_is_sent_once_and_says_so() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let topic =
        Counted::topic(&broker_of(Nats::new(format!("nats://{}", proxy.address())).unwrap(), impatient())).unwrap();
    let mut heard = Counted::topic(&broker(server.url())).unwrap().subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    proxy.drop_replies(true);
    let failed = topic.publish(&"a".to_owned(), &counted(2)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{failed:?}");
    proxy.drop_replies(false);
    publish(&topic, "a", 3).await;
    for number in 1..=3 {
        assert_eq!(receive(&mut heard).await, number);
    }
}

async fn a_server_that_is_about_to_end_ends_subscriptions_before(kind: NatsKind) {
    let options = NatsOptions::default().config("lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"20s\"");
    let server = harness::Nats::start(kind, options).await;
    let spare = super::server().await;
    let url = format!("nats://127.0.0.1:{}", server.port());
    let topic = Counted::topic(&broker(&url)).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 1).await;
    server.lame_duck();
    let since = Instant::now();
    assert_eq!(receive(&mut subscription).await, 1);
    let ended = ending(&mut subscription).await;
    assert_eq!(ended.cause(), Some(Cause::Disconnected));
    assert!(login::whole_text(&ended).contains("lame duck"), "{}", login::whole_text(&ended));
    assert!(since.elapsed() < Duration::from_secs(10), "it isn't gone yet");

    // One that knows another server goes there.
    let both = broker(format!("nats://127.0.0.1:{},127.0.0.1:{}", server.port(), spare.port()));
    let topic = Counted::topic(&both).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    publish(&topic, "a", 2).await;
    assert_eq!(receive(&mut subscription).await, 2);
}

#[tokio::test]
async fn a_nats_2_10_that_is_about_to_end_ends_subscriptions_before() {
    a_server_that_is_about_to_end_ends_subscriptions_before(NatsKind::Nats210).await;
}

#[tokio::test]
async fn a_nats_2_15_that_is_about_to_end_ends_subscriptions_before() {
    a_server_that_is_about_to_end_ends_subscriptions_before(NatsKind::Nats215).await;
}

#[tokio::test]
async fn the_first_server_that_answers_is_used() {
    let (paused, server) = (server().await, server().await);
    paused.pause().await;
    let dead = harness::free_ports(1)[0];
    let url = format!("nats://127.0.0.1:{dead},127.0.0.1:{},127.0.0.1:{}", paused.port(), server.port());
    // Whichever is tried first.
    for number in 0..6 {
        let limits = Limits::default().timeout(Duration::from_secs(3));
        let topic = Counted::topic(&broker_of(Nats::new(&url).unwrap(), limits)).unwrap();
        let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
        publish(&topic, "a", number).await;
        assert_eq!(receive(&mut subscription).await, number);
    }
    paused.resume().await;
}

/// Case I09.
#[tokio::test]
async fn a_publish_that_is_given_up_harms_no_other() {
    let server = server().await;
    let topic = Counted::topic(&broker_of(Nats::new(server.url()).unwrap(), impatient().timeout(DEADLINE))).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    for number in 0..300 {
        let key = "a".to_owned();
        let event = counted(2 * number + 1);
        let given_up = timeout(Duration::from_micros(number), topic.publish(&key, &event));
        let (_, kept) = tokio::join!(given_up, topic.publish(&key, &counted(2 * number)));
        kept.unwrap();
    }
    publish(&topic, "a", 600).await;
    let mut kept = Vec::new();
    loop {
        match receive(&mut subscription).await {
            600 => break,
            number if number % 2 == 0 => kept.push(number / 2),
            _ => {}
        }
    }
    assert_eq!(kept, (0..300).collect::<Vec<_>>());
}
