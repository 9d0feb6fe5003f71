//! Publishing to servers that misbehave, by callers that give up or go elsewhere.

use super::*;

#[tokio::test]
async fn a_server_that_closes_after_its_greeting_is_not_hammered() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let accepted = Arc::<AtomicUsize>::default();
    let serving = tokio::spawn({
        let accepted = accepted.clone();
        async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                let mut buffer = [0; 64];
                let read = stream.read(&mut buffer).await;
                assert!(read.is_ok_and(|read| read > 0));
                stream.write_all(GREETING).await.unwrap();
            }
        }
    });
    let broker = broker(url);
    let topic = Counted::topic(&broker).unwrap();
    for attempt in 1..=3 {
        let error = within("a publish fails", topic.publish(&"a".to_owned(), &counted(1))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert_eq!(accepted.load(Ordering::Relaxed), attempt);
    }
    let error = within("a subscribe fails", topic.subscribe(&"a".to_owned())).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{error:?}");
    assert_eq!(accepted.load(Ordering::Relaxed), 4);
    serving.abort();
}

#[tokio::test]
async fn what_is_not_resp_fails_what_waits() {
    let deep: &'static [u8] = b"*1\r\n".repeat(100_000).leak();
    let answers: [&'static [u8]; 19] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$999999999999\r\nabc",
        b"$9223372036854775807\r\nabc",
        b"*9223372036854775807\r\n",
        b"*999999999999\r\n:1\r\n",
        b"%9223372036854775807\r\n",
        b"%4611686018427387903\r\n",
        b"|9223372036854775807\r\n",
        b"|-1\r\n",
        b"~9223372036854775807\r\n",
        b">9223372036854775807\r\n",
        b">3\r\n$9\r\nsubscribe\r\n_\r\n:1\r\n",
        b"=-5\r\nabc",
        b"!-5\r\nabc",
        b":99999999999999999999999999999999999\r\n",
        b":-1\r\n",
        b"-\r\n",
        b"\r\n",
        deep,
    ];
    let mut running = tokio::task::JoinSet::new();
    for answer in answers {
        for greeting in [answer, GREETING] {
            running.spawn(async move {
                let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]);
                let fake = Fake::greeting(greeting, Some(answer)).await;
                let limits = Limits::default().timeout(Duration::from_millis(200));
                let broker = broker_of(Redis::new(fake.url()).unwrap(), limits);
                let topic = Counted::topic(&broker).unwrap();
                let key = "a".to_owned();
                let event = counted(1);
                let all =
                    async { tokio::join!(topic.publish(&key, &event), topic.subscribe(&key), broker.check(DEADLINE)) };
                // What the check makes of it is its own affair.
                let (published, subscribed, _) = Box::pin(within("all end", all)).await;
                assert!(published.is_err(), "{shown:?}: {published:?}");
                assert!(subscribed.is_err(), "{shown:?}: {subscribed:?}");
                broker.close(DEADLINE).await.unwrap();
            });
        }
    }
    running.join_all().await;
}

#[tokio::test]
async fn pushes_that_nobody_asked_for_disturb_no_publish() {
    let fake = Fake::greeting(
        b">2\r\n+hint\r\n:1\r\n%1\r\n+proto\r\n:3\r\n",
        Some(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n:7\r\n>2\r\n+hint\r\n:1\r\n"),
    )
    .await;
    let broker = broker(fake.url());
    let topic = Counted::topic(&broker).unwrap();
    for number in 0..3 {
        assert_eq!(publish(&topic, "a", number).await, Some(7));
    }
    assert_eq!(fake.accepted(), 1);
}

#[tokio::test]
async fn publishes_that_are_given_up_do_not_pile_up() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let limits = Limits::default().operations(8).timeout(DEADLINE);
    let broker = broker_of(Redis::new(proxy.url()).unwrap(), limits);
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    assert_eq!(publish(&topic, "a", 0).await, Some(0));
    proxy.stall(Direction::ToServer, true);
    for number in 0..100 {
        poll_and_drop(topic.publish(&key, &counted(number)), 2).await;
    }
    let error = within("it is refused", topic.publish(&key, &counted(1))).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Overloaded, Outcome::NotApplied));
    proxy.stall(Direction::ToServer, false);
    within("there is room again", async {
        while topic.publish(&key, &counted(1)).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    broker.close(DEADLINE).await.unwrap();
}

#[test]
fn two_runtimes_share_a_broker_one_after_the_other() {
    let make = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outer = make();
    let server = outer.block_on(server());
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let first = make();
    let mut subscription = first.block_on(async {
        assert_eq!(publish(&topic, "a", 1).await, Some(0));
        topic.subscribe(&"a".to_owned()).await.unwrap()
    });
    drop(first);
    let second = make();
    second.block_on(async {
        assert_eq!(cause(&mut subscription).await, Cause::Disconnected);
        assert_eq!(publish(&topic, "a", 2).await, Some(0));
        let mut again = topic.subscribe(&"a".to_owned()).await.unwrap();
        assert_eq!(publish(&topic, "a", 3).await, Some(1));
        assert_eq!(receive(&mut again).await, 3);
        drop(subscription);
        drop(again);
    });
    drop(second);
    let third = make();
    third.block_on(async {
        assert_eq!(publish(&topic, "a", 5).await, Some(0));
        let held = topic.subscribe(&"a".to_owned()).await.unwrap();
        std::thread::spawn(move || drop(held)).join().unwrap();
        within("it is unsubscribed", async { while publish(&topic, "a", 6).await != Some(0) {} }).await;
        let held = topic.subscribe(&"a".to_owned()).await.unwrap();
        drop((broker, topic));
        drop(held);
        within("connections are gone", async {
            while server.command(&["CLIENT", "LIST"]).await.text().lines().count() > 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}
