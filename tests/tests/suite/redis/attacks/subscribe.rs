//! Subscriptions that come and go, are given up midway, and are taken away.

use std::sync::atomic::AtomicBool;

use super::*;

/// Neither a machine that is busy nor a receiver that is slow ends a subscription here.
fn patient(server: &Server) -> Broker<Redis> {
    let limits = Limits::default().buffer_messages(10_000).heartbeat(Duration::from_secs(20));
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
    Broker::new(Redis::new(server.url()).unwrap(), config).unwrap()
}

#[tokio::test]
async fn a_pattern_that_the_server_takes_away_ends_its_subscription() {
    let fake = Fake::start(|words| {
        let pattern = "shop.test.topic.redis.counted.v1.*";
        Some(match &*words[0] {
            "HELLO" => GREETING.to_vec(),
            "PSUBSCRIBE" => push("psubscribe", pattern).into(),
            _ => (push("punsubscribe", pattern) + "+PONG\r\n").into(),
        })
    })
    .await;
    let broker = broker(fake.url());
    let mut all = within("it subscribes", Counted::topic(&broker).unwrap().subscribe_all()).await.unwrap();
    let error = within("it ends", all.receive()).await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Disconnected));
}

#[tokio::test]
async fn an_operation_cancelled_at_any_point_leaves_nothing_behind() {
    let server = server().await;
    let broker = patient(&server);
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    for connected in [false, true] {
        let kept = if connected { Some(topic.subscribe(&"kept".to_owned()).await.unwrap()) } else { None };
        for times in 0..40 {
            let all = poll_and_drop(topic.subscribe_all(), times).await;
            poll_and_drop(topic.publish(&key, &counted(1)), times).await;
            let batch = [counted(1), counted(2)];
            poll_and_drop(topic.publish_all(batch.iter().map(|event| (&key, event))), times).await;
            let held = poll_and_drop(topic.subscribe(&key), times).await;
            if let Some(Ok(mut held)) = held {
                assert!(publish(&topic, "a", 9).await >= Some(1));
                loop {
                    if receive(&mut held).await == 9 {
                        break;
                    }
                }
                poll_and_drop(held.close(), times % 5).await;
            }
            drop(all);
        }
        within("nothing is left", async {
            while publish(&topic, "a", 0).await != Some(0) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            loop {
                let stats = broker.stats();
                if (stats.operations, stats.setting_up, stats.live, stats.draining) == (0, 0, usize::from(connected), 0)
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        if let Some(mut kept) = kept {
            assert_eq!(publish(&topic, "kept", 5).await, Some(1));
            assert_eq!(receive(&mut kept).await, 5);
        }
    }
    for times in 0..6 {
        poll_and_drop(broker.close(DEADLINE), times).await;
    }
    let (a, b, c) = tokio::join!(broker.close(DEADLINE), broker.close(DEADLINE), broker.close(DEADLINE));
    a.unwrap();
    b.unwrap();
    c.unwrap();
    let stats = broker.stats();
    assert_eq!(
        (stats.operations, stats.tasks, stats.live, stats.draining, stats.callbacks),
        (0, 0, 0, 0, 0),
        "{stats:?}"
    );
    assert_eq!(server.command(&["CLIENT", "LIST"]).await.text().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_that_come_and_go_see_no_gap() {
    let server = server().await;
    let broker = patient(&server);
    let topic = Counted::topic(&broker).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let publisher = tokio::spawn({
        let (topic, stop) = (topic.clone(), stop.clone());
        async move {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                for key in ["a", "b"] {
                    topic.publish(&key.to_owned(), &counted(number)).await.unwrap();
                }
            }
        }
    });
    let mut tasks = Vec::new();
    for task in 0..16_u64 {
        let topic = topic.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..60_u64 {
                let key = if (task + round) % 3 == 0 { "b" } else { "a" }.to_owned();
                if (task + round) % 5 == 0 {
                    let mut all = topic.subscribe_all().await.unwrap();
                    let mut last = std::collections::HashMap::new();
                    for _ in 0..20 {
                        let (key, event) = within("all", all.receive()).await.unwrap();
                        if let Some(last) = last.insert(key, event.number) {
                            assert_eq!(event.number, last + 1);
                        }
                    }
                    if round % 2 == 0 {
                        all.close().await;
                    }
                    continue;
                }
                let mut one = topic.subscribe(&key).await.unwrap();
                let mut last = receive(&mut one).await;
                for _ in 0..(round % 13) {
                    let next = receive(&mut one).await;
                    assert_eq!(next, last + 1);
                    last = next;
                }
                if round % 2 == 0 {
                    one.close().await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    publisher.await.unwrap();
    broker.close(DEADLINE).await.unwrap();
}
