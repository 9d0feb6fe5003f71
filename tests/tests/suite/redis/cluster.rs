//! Sharded channels over a cluster's nodes.

use tidings::backend::RedisCluster;
use tidings_tests::harness::{Cluster, Replicas};

use super::*;

const KEYS: u64 = 24;

pub(super) fn cluster_broker(urls: Vec<String>) -> Broker<RedisCluster> {
    let limits = Limits::default().heartbeat(HEARTBEAT);
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
    Broker::new(RedisCluster::new(urls).unwrap(), config).unwrap()
}

async fn next(subscription: &mut Subscription<Counted, RedisCluster>) -> u64 {
    within("a message comes", subscription.receive()).await.unwrap().number
}

#[test]
fn nodes_that_differ_are_refused() {
    let refused: [(&[&str], &str); 5] = [
        (&[], "at least one"),
        (&["redis://a", "rediss://a"], "differ"),
        (&["redis://u:hunter2@a", "redis://u:hunter3@b"], "differ"),
        (&["redis://a/1"], "database"),
        (&["unix:/socket"], "TCP"),
    ];
    for (urls, words) in refused {
        let text = RedisCluster::new(urls).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains("hunter"), "{urls:?}: {text}");
    }
}

/// A dropped operation has the next one ask for the slots, also where there is nobody else to ask and the answer takes long.
#[tokio::test]
async fn the_only_node_has_an_operations_time_to_tell_the_slots() {
    const TIMEOUT: Duration = Duration::from_secs(6);
    let cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
    let proxy = Proxy::start(cluster.nodes()[0].port()).await;
    for slow in [TIMEOUT / 2, TIMEOUT * 2] {
        let limits = Limits::default().heartbeat(HEARTBEAT).timeout(TIMEOUT);
        let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
        let broker = Broker::new(RedisCluster::new([proxy.url()]).unwrap(), config).unwrap();
        let topic = Counted::topic(&broker).unwrap();
        let (key, event) = ("a".to_owned(), counted(1));
        proxy.stall(Direction::ToClient, true);
        let answering = async {
            tokio::time::sleep(slow).await;
            proxy.stall(Direction::ToClient, false);
        };
        let (published, ()) = tokio::join!(topic.publish(&key, &event), answering);
        match published {
            Ok(_) => assert!(slow < TIMEOUT, "it took longer than the timeout"),
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (ErrorKind::Timeout, Outcome::NotApplied),
                    "after {slow:?}"
                );
                assert!(slow > TIMEOUT, "{error:?}");
            }
        }
        broker.close(DEADLINE).await.unwrap();
    }
}

/// Cases D10 and D11, and what moves and dies around them.
#[tokio::test]
async fn channels_of_all_slots_are_carried_and_follow_their_slot() {
    let mut cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
    let broker = cluster_broker(cluster.urls()[..1].to_vec());
    let checked = broker.check(DEADLINE).await.unwrap();
    assert!(checked.server.starts_with("redis 8.") && checked.problems.is_empty(), "{checked:?}");
    let topic = Counted::topic(&broker).unwrap();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key{key}")).collect();

    let mut all = topic.subscribe_keys(&keys[0], &keys[1..]).await.unwrap();
    let events: Vec<_> = (0..KEYS).map(counted).collect();
    for heard in topic.publish_all(keys.iter().zip(&events)).await.unwrap() {
        assert_eq!(heard.unwrap().count(), None);
    }
    let mut seen = Vec::new();
    for _ in 0..KEYS {
        let (key, event) = within("a message comes", all.receive()).await.unwrap();
        assert_eq!(key, format!("key{}", event.number));
        seen.push(event.number);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..KEYS).collect::<Vec<_>>());
    within("it unsubscribes everywhere", all.close()).await;

    // The publisher is told by `MOVED` and the subscription by the server; a neighbour of the channel's node stays.
    let key = "moving".to_owned();
    let channel = format!("{}.{key}", topic.address());
    let slot = cluster.slot_of(&channel).await;
    let source = cluster.primary_of(slot).await;
    let mut neighbour = None;
    for other in &keys {
        let other_slot = cluster.slot_of(&format!("{}.{other}", topic.address())).await;
        if other_slot != slot && cluster.primary_of(other_slot).await == source {
            neighbour = Some(other.clone());
        }
    }
    let neighbour = neighbour.expect("of so many keys one is on the same node");
    let mut staying = topic.subscribe(&neighbour).await.unwrap();
    let mut moving = topic.subscribe(&key).await.unwrap();
    topic.publish(&key, &counted(1)).await.unwrap();
    assert_eq!(next(&mut moving).await, 1);
    cluster.move_slot(slot, (source + 1) % 3).await;
    let error = within("the subscription ends", moving.receive()).await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Disconnected));
    assert!(format!("{error} {error:?}").contains("slot moved"), "{error:?}");
    topic.publish(&key, &counted(2)).await.unwrap();
    let mut moving = topic.subscribe(&key).await.unwrap();
    topic.publish(&key, &counted(3)).await.unwrap();
    assert_eq!(next(&mut moving).await, 3);
    topic.publish(&neighbour, &counted(4)).await.unwrap();
    assert_eq!(next(&mut staying).await, 4);
    broker.close(DEADLINE).await.unwrap();
}
