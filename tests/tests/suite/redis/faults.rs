//! Broken connections, dead servers and lost replies.

use super::*;

#[tokio::test]
async fn a_killed_connection_ends_subscriptions_and_the_next_ones_open_another() {
    let server = server().await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    let mut subscription = topic.subscribe(&key).await.unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(1));
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(receive(&mut subscription).await, 1);
    assert_eq!(cause(&mut subscription).await, Cause::Disconnected);
    let mut subscription = topic.subscribe(&key).await.unwrap();
    assert_eq!(publish(&topic, "a", 2).await, Some(1));
    assert_eq!(receive(&mut subscription).await, 2);
}

#[tokio::test]
async fn a_server_that_stands_still_is_noticed_within_two_heartbeats_and_close_does_not_wait() {
    let server = server().await;
    let limits = Limits::default().timeout(Duration::from_millis(200));
    let broker = broker_of(Redis::new(server.url()).unwrap(), limits);
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    let mut subscription = topic.subscribe(&key).await.unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(1));
    assert_eq!(receive(&mut subscription).await, 1);
    server.pause().await;
    let paused = tokio::time::Instant::now();
    assert_eq!(cause(&mut subscription).await, Cause::Disconnected);
    assert!(paused.elapsed() < 3 * HEARTBEAT, "{:?}", paused.elapsed());

    let error = topic.publish(&key, &counted(2)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error:?}");
    // The next has a connection of its own, which the server doesn't greet.
    let error = topic.publish(&key, &counted(3)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotApplied), "{error:?}");
    let waiting = tokio::spawn({
        let topic = topic.clone();
        async move { topic.publish(&"a".to_owned(), &counted(4)).await }
    });
    tokio::task::yield_now().await;
    broker.close(DEADLINE).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    server.resume().await;
}

#[tokio::test]
async fn a_publish_whose_reply_is_lost_is_sent_once_and_says_so() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let limits = Limits::default().timeout(Duration::from_millis(200));
    let broker = broker_of(Redis::new(proxy.url()).unwrap(), limits);
    let topic = Counted::topic(&broker).unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(0));
    proxy.record(true);
    proxy.drop_replies(true);
    let error = topic.publish(&"a".to_owned(), &counted(2)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error:?}");
    assert_eq!(proxy.count("PUBLISH"), 1);
    proxy.drop_replies(false);
    assert_eq!(publish(&topic, "a", 3).await, Some(0));
    assert_eq!(proxy.count("PUBLISH"), 2);
}

#[tokio::test]
async fn a_publish_connects_again_and_fails_unsent_where_nobody_listens() {
    let mut server = server().await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(0));
    server.kill();
    within("the connection is gone", async {
        loop {
            let error = topic.publish(&"a".to_owned(), &counted(2)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            if error.outcome() == Outcome::NotApplied {
                break;
            }
        }
    })
    .await;
    let error = topic.subscribe(&"a".to_owned()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{error:?}");
    server.restart().await;
    assert_eq!(publish(&topic, "a", 3).await, Some(0));
}
