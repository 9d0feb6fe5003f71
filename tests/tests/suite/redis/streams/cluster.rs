//! Streams whose partitions are on several nodes of a cluster.

use tidings::backend::RedisCluster;
use tidings_tests::harness::{Cluster, Replicas};

use super::*;
use crate::redis::cluster::cluster_broker;

const PARTITIONS: u32 = 8;

async fn append(stream: &Stream<Entry, RedisCluster>, number: u64) -> Position {
    let receipt = within("an append returns", stream.append(&format!("k{number}"), &entry(number))).await.unwrap();
    receipt.position.expect("Redis tells the position")
}

async fn read_all(stream: &Stream<Entry, RedisCluster>) -> Vec<u64> {
    let mut after = Positions::new();
    let mut read = Vec::new();
    loop {
        let page =
            within("a read returns", stream.read(after.clone(), 50, Duration::ZERO).into_future()).await.unwrap();
        if page.is_empty() {
            read.sort_unstable();
            return read;
        }
        after.extend(page.iter().map(Delivery::position));
        read.extend(numbers(&page));
    }
}

fn partition_log(stream: &Stream<Entry, RedisCluster>, partition: u32) -> String {
    format!("{{{}.p{partition}}}:log", stream.address())
}

/// Cases B21 and B22.
#[tokio::test]
async fn partitions_on_several_nodes_are_one_stream_and_follow_their_slots() {
    let mut cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
    let broker = cluster_broker(cluster.urls()[..1].to_vec());
    let stream = Entry::stream(&broker).unwrap();
    let absent = stream.append(&"a".to_owned(), &entry(1)).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Absent, "{absent:?}");
    let settings = StreamSettings::new().partitions(PARTITIONS);
    let racing = (stream.ensure(settings.clone()).into_future(), stream.ensure(settings.clone()).into_future());
    let (one, other) = tokio::join!(racing.0, racing.1);
    one.unwrap();
    other.unwrap();
    let conflict = stream.ensure(StreamSettings::new().partitions(2)).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict:?}");
    let mut owners = std::collections::HashSet::new();
    for partition in 0..PARTITIONS {
        let slot = cluster.slot_of(&partition_log(&stream, partition)).await;
        owners.insert(cluster.primary_of(slot).await);
    }
    assert_eq!(owners.len(), 3, "the partitions are on every node");

    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let entries: Vec<_> = (0..100).map(entry).collect();
    for receipt in stream.append_all(keys.iter().zip(&entries)).await.unwrap() {
        receipt.unwrap();
    }
    assert_eq!(read_all(&stream).await, (0..100).collect::<Vec<_>>());

    let group = stream.ack_group("billing").unwrap();
    assert!(group.ensure(Start::Earliest).await.unwrap());
    let consumer = group.consumer("a").unwrap();
    let mut seen = Vec::new();
    for max in [1, 3].into_iter().chain([64; 8]) {
        let page = within("a read returns", consumer.read(max, SHORT).into_future()).await.unwrap();
        assert!(page.len() <= max);
        let acked = consumer.ack(page.iter().map(Delivery::position)).await.unwrap();
        assert_eq!(acked, page.len() as u64);
        seen.extend(numbers(&page));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());

    // Reads wait on all nodes, and are woken by any of them.
    for number in 100..120 {
        let from = stream.read(Start::Latest, 10, WAIT).into_future();
        let new = consumer.read(10, WAIT).into_future();
        let appending = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            append(&stream, number).await
        };
        let (read, new, _) = within("both are woken", async { tokio::join!(from, new, appending) }).await;
        assert_eq!(numbers(&read.unwrap()), [number]);
        assert_eq!(numbers(&new.unwrap()), [number]);
    }

    // A slot moves under a stream that is in use, and under a wait for it. While it is on its way it is refused.
    let slot = cluster.slot_of(&partition_log(&stream, 3)).await;
    let source = cluster.primary_of(slot).await;
    let consuming = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 80 {
            match consumer.read(200, WAIT).await {
                Ok(page) => seen.extend(numbers(&page)),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
        seen
    });
    cluster.move_slot(slot, (source + 1) % 3).await;
    for number in 120..200 {
        append(&stream, number).await;
    }
    let mut seen = within("all are seen", consuming).await.unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (120..200).collect::<Vec<_>>());
    assert_eq!(read_all(&stream).await, (0..200).collect::<Vec<_>>());
    assert!(stream.delete().await.unwrap());
    broker.close(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_id_is_stored_once_in_its_partition() {
    let cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
    let broker = cluster_broker(cluster.urls());
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::new().partitions(PARTITIONS)).await.unwrap();
    let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
    let value = entry(1);
    let once = |key| Append::new(key, &value).id("id-1");
    let first = stream.append_with(once(&keys[0])).await.unwrap();
    let second = stream.append_with(once(&keys[0])).await.unwrap();
    assert_eq!((first.duplicate, second.duplicate, second.position), (false, true, first.position));
    let receipts = stream.append_all(keys.iter().map(once)).await.unwrap();
    let stored = receipts.into_iter().filter(|receipt| !receipt.as_ref().unwrap().duplicate).count();
    let partitions: std::collections::HashSet<_> =
        keys.iter().map(|key| tidings::capability::partition_of(key.as_bytes(), PARTITIONS)).collect();
    assert_eq!(stored, partitions.len() - 1, "once in each other partition that a key has");
}

#[tokio::test]
async fn a_crashed_primary_is_followed_by_its_replica() {
    let mut cluster = Cluster::start(Kind::Redis8, Replicas::One, RedisOptions::default()).await;
    let broker = cluster_broker(cluster.urls());
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::new().partitions(PARTITIONS)).await.unwrap();
    let replicated = stream.with_durability(Durability::Replicas(1)).unwrap();
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let consumer = group.consumer("a").unwrap();
    for number in 0..40 {
        append(&replicated, number).await;
    }
    let slot = cluster.slot_of(&partition_log(&stream, 0)).await;
    cluster.crash_primary_of(slot).await;
    for number in 40..80 {
        within("the replica takes appends", async {
            while let Err(error) = stream.append(&format!("k{number}"), &entry(number)).await {
                assert!(error.is_transient(), "{error:?}");
            }
        })
        .await;
    }
    let mut seen = Vec::new();
    within("all are read", async {
        while seen.len() < 80 {
            match consumer.read(64, WAIT).await {
                Ok(page) => seen.extend(numbers(&page)),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    })
    .await;
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..80).collect::<Vec<_>>());
}
