//! A cluster whose leaders change, under the backend.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend;
use tidings::{Broker, Config, Limits, MemberSettings, Namespace, Outcome, Start, StreamSettings, stream_spec};
use tidings_tests::harness::{KafkaCluster, KafkaKind, KafkaOptions, within};

#[stream_spec(name = "shop.turns", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    n: u64,
}

/// With the leader of the records goes, at times, who coordinates the group.
async fn appends_and_a_group_go_on_with_the_next_leader(kind: KafkaKind) {
    let mut cluster = KafkaCluster::start(kind, KafkaOptions::default()).await;
    let kafka = backend::Kafka::new(format!("kafka://{}", cluster.addresses())).expect("the URL is good");
    let limits = Limits::default().timeout(Duration::from_secs(3));
    let namespace = Namespace::new("shop", "led").expect("the names are good");
    let broker = Broker::new(kafka, Config::new(namespace).limits(limits)).expect("the settings are good");
    let turns = Turn::stream(&broker).expect("it is bound once");
    turns.ensure(StreamSettings::new().replicas(3)).await.expect("three servers are there");
    let group = turns.commit_group("readers").expect("the name is good");
    group.ensure(Start::Earliest).await.expect("the group is made");
    cluster.wait_until_in_sync(turns.address(), 0).await;

    let stop = AtomicBool::new(false);
    let appending = async {
        let mut fates: BTreeMap<u64, Result<(), Outcome>> = BTreeMap::new();
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let appended = turns.append(&n, &Turn { n }).await;
            if let Err(error) = &appended {
                assert!(error.is_transient(), "{error}");
            }
            fates.insert(n, appended.map(drop).map_err(|error| error.outcome()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fates
    };
    let reading = async {
        let member = group.join(MemberSettings::new()).await.expect("the group is there");
        let mut numbers = Vec::new();
        loop {
            // All that is there when the appends have ended.
            let last = stop.load(Ordering::Relaxed);
            match member.read(100, Duration::from_millis(500)).await {
                Ok(read) if read.is_empty() && last => {
                    if group.lag().await.is_ok_and(|lag| lag[0].records == 0) {
                        return numbers;
                    }
                }
                Ok(read) => {
                    numbers.extend(read.iter().map(|one| one.value().expect("it decodes").n));
                    // What isn't committed now is with the next.
                    let _ = member.commit(read.iter().map(tidings::Delivery::position)).await;
                    if last && member.commit(read.iter().map(tidings::Delivery::position)).await.is_err() {
                        let _ = member.seek_to_committed().await;
                    }
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    };
    let crashing = async {
        for round in 0..2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let crashed = cluster.leader_of(turns.address(), 0).await;
            let heir = cluster.crash_leader_of(turns.address(), 0).await;
            assert_ne!(crashed, heir, "round {round}");
            within("an append goes on", async {
                while turns.append(&u64::MAX, &Turn { n: u64::MAX }).await.is_err() {}
            })
            .await;
            cluster.restart(crashed).await;
            cluster.wait_until_in_sync(turns.address(), 0).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let all = async { tokio::join!(appending, reading, crashing) };
    let (fates, numbers, ()) =
        tokio::time::timeout(Duration::from_mins(2), all).await.expect("appends and the group go on");
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for n in numbers.iter().filter(|n| **n != u64::MAX) {
        *times.entry(*n).or_default() += 1;
    }
    let failed = fates.values().filter(|fate| fate.is_err()).count();
    eprintln!("{kind:?}: {} appended, of which {failed} failed; {} read", fates.len(), times.len());
    for (n, fate) in fates {
        let times = times.get(&n).copied().unwrap_or(0);
        match fate {
            Ok(()) => assert!(times >= 1, "{n} was confirmed and never came"),
            Err(Outcome::NotApplied) => assert_eq!(times, 0, "{n} wasn't applied"),
            Err(Outcome::Unknown) => {}
        }
    }
    let first: Vec<u64> = {
        let mut seen = std::collections::BTreeSet::new();
        numbers.into_iter().filter(|n| *n != u64::MAX && seen.insert(*n)).collect()
    };
    assert!(first.is_sorted(), "they come in their order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_and_a_group_go_on_with_the_next_leader_4_0() {
    appends_and_a_group_go_on_with_the_next_leader(KafkaKind::Kafka40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_and_a_group_go_on_with_the_next_leader_4_4() {
    appends_and_a_group_go_on_with_the_next_leader(KafkaKind::Kafka44).await;
}

/// One server after the other hears of what is made and removed, and any of them may be asked next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_just_made_is_there_for_whoever_asks_next() {
    let cluster = KafkaCluster::start(KafkaKind::Kafka44, KafkaOptions::default()).await;
    let addresses = cluster.addresses();
    let mut servers: Vec<&str> = addresses.split(',').collect();
    for round in 0..10 {
        servers.rotate_left(1);
        let kafka = backend::Kafka::new(format!("kafka://{}", servers.join(","))).expect("the URL is good");
        let namespace = Namespace::new("shop", format!("fresh{round}")).expect("the names are good");
        let broker = Broker::new(kafka, Config::new(namespace)).expect("the settings are good");
        let turns = Turn::stream(&broker).expect("it is bound once");
        let group = turns.commit_group("readers").expect("the name is good");
        let settings = StreamSettings::new().partitions(3).replicas(1 + round % 3);
        for time in 0..2 {
            turns.ensure(settings.clone()).await.expect("the stream is made");
            assert!(group.ensure(Start::Earliest).await.expect("the stream is there"), "round {round}, {time}");
            turns.append(&1, &Turn { n: 1 }).await.expect("the stream is there");
            let read = turns.read(Start::Earliest, 10, Duration::ZERO).await.expect("the stream is there");
            assert_eq!(read.len(), 1, "round {round}, {time}");
            let member = group.join(MemberSettings::new()).await.expect("the group is there");
            let read = member.read(10, Duration::from_secs(20)).await.expect("it is a member");
            member.commit(read.iter().map(tidings::Delivery::position)).await.expect("it is the member's");
            member.leave().await;
            within("what was left is no member", async { while group.delete().await.is_err() {} }).await;
            assert!(turns.delete().await.expect("the stream is there"), "round {round}, {time}");
        }
        broker.close(Duration::from_secs(20)).await.expect("everything ends");
    }
}
