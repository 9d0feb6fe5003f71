//! Kafka beside `rdkafka` used directly, in turns: `cargo bench -p tidings-tests --bench kafka [mock|append|consume]`.
//!
//! `mock` appends to librdkafka's own broker within this process, which shows what the clients cost; `append` and `consume`
//! have Apache Kafka. It fails when a record was lost or duplicated or a round timed out. A target that is missed is said, not failed. See
//! docs/benchmarks.md.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a bench spawns, and measures by the wall clock")]

mod consume;
#[path = "../topics/measure.rs"]
mod measure;
mod raw;
#[path = "../streams/text.rs"]
#[allow(dead_code, reason = "a part of it is for Redis")]
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use tidings::backend::Kafka;
use tidings::{Broker, CommitGroup, Config, Namespace, Start, Stream, StreamSettings};
use tidings_tests::harness::{Kafka as Server, KafkaKind, KafkaOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::consume::{member, worker};
use crate::measure::{ROUND, Way, print, print_own, take_turns};
use crate::raw::{Commits, Raw};
use crate::text::{FIRST, Seen, Text};

const CONSUMED: u32 = 100_000;
const PARTITIONS: u32 = 4;
/// The ways in which the twin commits.
const CONFIRMED: &str = "rdkafka, each 256, confirmed";
const UNCONFIRMED: &str = "rdkafka, each 256, unconfirmed";
const BY_ITSELF: &str = "rdkafka, by itself, unconfirmed";

fn main() -> ExitCode {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime = Runtime::new().expect("a runtime starts");
    let run = || {
        if is_wanted("mock") {
            let cluster = MockCluster::new(1).map_err(shown)?;
            let bench = Bench { name: "mock", runtime: &runtime, address: cluster.bootstrap_servers(), server: None };
            // It knows no group's administration and keeps little, so that only producing is measured.
            cluster.create_topic(raw::TOPIC, 1, 1).map_err(shown)?;
            bench.produce(|| Ok(()))?;
        }
        if is_wanted("append") || is_wanted("consume") {
            let server = runtime.block_on(Server::start(KafkaKind::Kafka44, KafkaOptions::default()));
            let bench =
                Bench { name: "kafka", runtime: &runtime, address: server.address(), server: Some(server.pid()) };
            if is_wanted("append") {
                bench.produce(|| bench.renew(1))?;
            }
            if is_wanted("consume") {
                bench.consume()?;
            }
        }
        Ok::<_, String>(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("kafka: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct Bench<'a> {
    name: &'static str,
    runtime: &'a Runtime,
    address: String,
    server: Option<u32>,
}

impl Bench<'_> {
    fn in_time<R>(&self, work: impl Future<Output = Result<R, String>>) -> Result<R, String> {
        self.runtime
            .block_on(async { timeout(ROUND, work).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
    }

    fn broker(&self) -> Result<Broker<Kafka>, String> {
        let namespace = Namespace::new("bench", "kafka").map_err(shown)?;
        let kafka = Kafka::new(format!("kafka://{}", self.address)).map_err(shown)?;
        Broker::new(kafka, Config::new(namespace)).map_err(shown)
    }

    /// Makes the stream anew, so that nothing is in it.
    fn renew(&self, partitions: u32) -> Result<(), String> {
        self.in_time(async {
            let broker = self.broker()?;
            let stream = Text::stream(&broker).map_err(shown)?;
            stream.delete().await.map_err(shown)?;
            stream.ensure(StreamSettings::new().partitions(partitions)).await.map_err(shown)?;
            broker.close(ROUND).await.map_err(shown)
        })
    }

    fn produce(&self, mut before: impl FnMut() -> Result<(), String>) -> Result<(), String> {
        before()?;
        let broker = self.broker()?;
        let stream = Text::stream(&broker).map_err(shown)?;
        let raw = Raw::new(&self.address)?;
        for bytes in [128, 1_024] {
            for (tasks, entries) in [(1, 1_000), (256, 40_960), (4_096, 81_920)] {
                let text = Text::new(bytes);
                let rows = take_turns(
                    entries,
                    self.server,
                    vec![
                        Way::new("tidings", || self.in_time(appends(&stream, &text, tasks, entries))),
                        Way::new("rdkafka, FutureProducer", || self.in_time(raw.sends(&text, tasks, entries))),
                    ],
                )?;
                print(&format!("{}, append, {bytes} B, {tasks} at once", self.name), &rows, 0.95);
            }
        }
        self.in_time(async { broker.close(ROUND).await.map_err(shown) })
    }

    fn consume(&self) -> Result<(), String> {
        for bytes in [128, 1_024] {
            self.renew(PARTITIONS)?;
            let broker = self.broker()?;
            let stream = Text::stream(&broker).map_err(shown)?;
            let raw = Raw::new(&self.address)?;
            let text = Text::new(bytes);
            self.in_time(raw.fill(&text, CONSUMED, PARTITIONS))?;
            let group = stream.commit_group("bench").map_err(shown)?;
            let ours = |name, round: fn(CommitGroup<Text, Kafka>, Arc<Seen>) -> Round| {
                let (group, again) = (group.clone(), group.clone());
                let measured = move || self.measured(|seen| round(group.clone(), seen));
                Way::new(name, measured).between(
                    {
                        let group = again.clone();
                        move || self.in_time(renewed(&group))
                    },
                    move || self.in_time(complete(&again)),
                )
            };
            let raw = &raw;
            let twin = |name, commits| Way::new(name, move || self.measured(|seen| raw.consume(seen, commits)));
            let rows = take_turns(
                CONSUMED,
                self.server,
                vec![
                    ours("a member reads and commits", |group, seen| Box::pin(member(group, seen))),
                    ours("a worker", |group, seen| Box::pin(worker(group, seen))),
                    twin(CONFIRMED, Commits::Each),
                    twin(UNCONFIRMED, Commits::EachUnconfirmed),
                    twin(BY_ITSELF, Commits::ByItself),
                ],
            )?;
            // A page of the member's is committed when it goes on, which only one twin can say.
            let own: [(&[&str], f64); 2] = [(&[CONFIRMED], 0.95), (&[CONFIRMED, UNCONFIRMED, BY_ITSELF], 0.95)];
            print_own(&format!("{}, consume, {bytes} B", self.name), &rows, &own);
            self.in_time(async { broker.close(ROUND).await.map_err(shown) })?;
        }
        Ok(())
    }

    fn measured<F: Future<Output = Result<(), String>>>(
        &self,
        round: impl FnOnce(Arc<Seen>) -> F,
    ) -> Result<Duration, String> {
        let seen = Arc::new(Seen::new(CONSUMED));
        let start = Instant::now();
        self.in_time(round(seen.clone()))?;
        let took = start.elapsed();
        seen.is_complete().map(|()| took)
    }
}

type Round = std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

async fn renewed(group: &CommitGroup<Text, Kafka>) -> Result<(), String> {
    group.delete().await.map_err(shown)?;
    group.ensure(Start::Earliest).await.map_err(shown).map(drop)
}

async fn complete(group: &CommitGroup<Text, Kafka>) -> Result<(), String> {
    let left: u64 = group.lag().await.map_err(shown)?.iter().map(|lag| lag.records).sum();
    if left == 0 { Ok(()) } else { Err(format!("{left} records aren't committed")) }
}

/// Waits for all tasks, each of which has appended its share.
async fn all_done(mut running: JoinSet<Result<(), String>>, start: Instant) -> Result<Duration, String> {
    while let Some(done) = running.join_next().await {
        done.map_err(shown)??;
    }
    Ok(start.elapsed())
}

/// The numbers of a task's entries.
fn share(task: u32, tasks: u32, entries: u32) -> std::ops::Range<u32> {
    let each = entries / tasks;
    FIRST + task * each..FIRST + (task + 1) * each
}

async fn appends(stream: &Stream<Text, Kafka>, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (stream, mut text) = (stream.clone(), text.clone());
        running.spawn(async move {
            for number in share(task, tasks, entries) {
                text.number = number;
                stream.append(&(), &text).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}
