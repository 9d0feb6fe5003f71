//! Worker processes of which one is killed again and again: nothing is lost, and a kill explains each duplicate. The
//! program `load` does the same with as many entries as one likes.

use std::time::Duration;

use tidings::backend::{Redis, RedisCluster};
use tidings::capability::AckGroups;
use tidings_tests::harness::{Cluster, Kind, RedisOptions, Replicas, Server};
use tidings_tests::load::{Kill, Plan, work_off};

async fn killed_again_and_again<B: AckGroups>(backend: B, urls: Vec<String>, partitions: u32) {
    let plan = Plan {
        program: env!("CARGO_BIN_EXE_hand").into(),
        urls,
        entries: 6_000,
        partitions,
        processes: 3,
        pace: Duration::from_millis(3),
        claim_after: Duration::from_millis(1_500),
        kill: Kill::Times(6),
    };
    let figures = Box::pin(work_off(backend, &plan)).await;
    assert!(figures.lost.is_empty(), "{figures:?}");
    assert!(figures.unexplained.is_empty(), "{figures:?}");
    assert_eq!(figures.kills, (3, 3));
    // The control: a process that is killed under way leaves something to be handled again.
    assert!(figures.duplicates > 0, "{figures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_nothing() {
    let server = Server::start(Kind::Redis7, RedisOptions::default()).await;
    killed_again_and_again(Redis::new(server.url()).unwrap(), vec![server.url()], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_nothing_on_a_cluster() {
    let cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
    killed_again_and_again(RedisCluster::new(cluster.urls()).unwrap(), cluster.urls(), 6).await;
}
