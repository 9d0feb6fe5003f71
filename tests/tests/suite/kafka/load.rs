//! Processes that are members of a commit group, of which some are killed.

use std::path::PathBuf;
use std::time::Duration;

use tidings_tests::harness::{Kafka, KafkaKind, KafkaOptions};
use tidings_tests::members::{Plan, work_off};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_killed_lose_nothing_and_repeat_nothing_that_was_committed() {
    let server = Kafka::start(KafkaKind::Kafka44, KafkaOptions::default()).await;
    let figures = work_off(&Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_member")),
        url: format!("kafka://{}", server.address()),
        records: 60_000,
        partitions: 12,
        members: 3,
        pace: Duration::from_millis(200),
        kill_every: Duration::from_secs(1),
    })
    .await;
    assert_eq!(figures.lost, Vec::<u64>::new());
    assert_eq!(figures.unexplained, Vec::<String>::new());
    assert!(figures.kills > 0, "{figures:?}");
}

/// The example's members are processes, and one of them gets SIGKILL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_warehouse_counts_every_event_once() {
    // As a server has it by itself: a first group waits for more members.
    let options = KafkaOptions::default().config("group.initial.rebalance.delay.ms=3000");
    let server = Kafka::start(KafkaKind::Kafka44, options).await;
    // target/{profile}/deps/{this test}
    let this = std::env::current_exe().expect("a test knows its own path");
    let profile = this.parent().and_then(|deps| deps.parent()).expect("a test lies in target/{profile}/deps");
    let program = profile.join("examples").join("warehouse");
    let url = format!("kafka://{}", server.address());
    let run = Command::new(&program).args(["--backend", &url]).output().await;
    let output = run.unwrap_or_else(|failed| {
        let remedy = "cargo build -p tidings-examples --examples --features kafka";
        panic!("`{}`: {failed}; `{remedy}` makes it", program.display())
    });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Every event is counted once, and the sums are the file's own."), "{text}");
    assert!(text.contains("all         1707        0     2616.39"), "{text}");
}
