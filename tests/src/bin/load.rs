//! Lets processes work off entries while one of them is killed every so often, and prints what became of them:
//!
//! ```sh
//! cargo run --release -p tidings-tests --bins && target/release/load 100000 redis-8
//! ```
//!
//! Its arguments are how many entries (100,000), on which server (`redis-7`, `redis-8`, `valkey-8`, `cluster`, `kafka-40`,
//! `kafka-44`, `nats-210` or `nats-215`), how many processes (3), how many microseconds a handler takes (2,000; on Kafka for
//! a batch) and after how many milliseconds one is killed (1,000). It fails when an entry is lost, or was handled twice
//! without a kill that explains it: on Kafka one before its position was committed. On NATS the processes are workers in
//! one, what is killed and restarted is the server, and it fails when something comes again whose ack was confirmed.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use tidings::backend::{Redis, RedisCluster};
use tidings_tests::deliveries;
use tidings_tests::harness::{Cluster, Kafka, KafkaKind, KafkaOptions, Kind, NatsKind, RedisOptions, Replicas, Server};
use tidings_tests::load::{Kill, Plan, work_off};
use tidings_tests::members;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let entries = number(arguments.next(), 100_000);
    let system = arguments.next().unwrap_or_else(|| "redis-8".to_owned());
    let processes = number(arguments.next(), 3);
    let pace = Duration::from_micros(number(arguments.next(), 2_000));
    let every = Duration::from_millis(number(arguments.next(), 1_000));
    if let Some(kind) = [("kafka-40", KafkaKind::Kafka40), ("kafka-44", KafkaKind::Kafka44)]
        .into_iter()
        .find_map(|(name, kind)| (name == system).then_some(kind))
    {
        return members(kind, entries, usize::try_from(processes).expect("it is small"), pace, every).await;
    }
    if let Some(kind) = [("nats-210", NatsKind::Nats210), ("nats-215", NatsKind::Nats215)]
        .into_iter()
        .find_map(|(name, kind)| (name == system).then_some(kind))
    {
        let workers = usize::try_from(processes).expect("it is small");
        return deliveries(deliveries::Plan { kind, deliveries: entries, workers, pace, kill_every: every }).await;
    }
    let kill = Kill::Every(every);
    let program = env::current_exe().expect("the program has a path").with_file_name("hand");
    let plan = Plan {
        program,
        urls: Vec::new(),
        entries,
        partitions: if system == "cluster" { 6 } else { 1 },
        processes: usize::try_from(processes).expect("it is small"),
        pace,
        claim_after: Duration::from_secs(3),
        kill,
    };
    let figures = if system == "cluster" {
        let cluster = Cluster::start(Kind::Redis8, Replicas::None, RedisOptions::default()).await;
        let backend = RedisCluster::new(cluster.urls()).expect("good URLs");
        work_off(backend, &Plan { urls: cluster.urls(), ..plan }).await
    } else {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == system);
        let kind = kind.unwrap_or_else(|| panic!("`{system}`: give redis-7, redis-8, valkey-8 or cluster"));
        let server = Server::start(kind, RedisOptions::default()).await;
        let backend = Redis::new(server.url()).expect("a good URL");
        work_off(backend, &Plan { urls: vec![server.url()], ..plan }).await
    };
    println!("{entries} entries on {system} by {processes} processes, {pace:?} for each");
    println!("appended in {:.2?}", figures.appending);
    #[allow(clippy::cast_precision_loss, reason = "a rate for the eye")]
    let rate = entries as f64 / figures.lasted.as_secs_f64();
    println!("all acknowledged after {:.2?}, {rate:.0}/s", figures.lasted);
    println!("killed {} that came back under their name, and {} under another", figures.kills.0, figures.kills.1);
    println!("handlers were called {} times, of which {} were duplicates", figures.handled, figures.duplicates);
    println!("lost {}, duplicates without a kill {}", figures.lost.len(), figures.unexplained.len());
    println!("gaps told {}", figures.gaps);
    for told in figures.unexplained.iter().take(20) {
        println!("unexplained: {told}");
    }
    if figures.lost.is_empty() && figures.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn members(kind: KafkaKind, records: u64, members: usize, pace: Duration, kill_every: Duration) -> ExitCode {
    let server = Kafka::start(kind, KafkaOptions::default()).await;
    let program = env::current_exe().expect("the program has a path").with_file_name("member");
    let url = format!("kafka://{}", server.address());
    let plan = members::Plan { program, url, records, partitions: 12, members, pace, kill_every };
    let figures = members::work_off(&plan).await;
    println!("{records} records on {} by {members} members, {pace:?} for a batch", kind.name());
    println!("appended in {:.2?}", figures.appending);
    println!("all committed after {:.2?}; killed {}", figures.lasted, figures.kills);
    println!("handlers got {} records, of which {} were duplicates", figures.handled, figures.duplicates);
    println!("lost {}, duplicates of what was committed {}", figures.lost.len(), figures.unexplained.len());
    for told in figures.unexplained.iter().take(20) {
        println!("unexplained: {told}");
    }
    if figures.lost.is_empty() && figures.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn deliveries(plan: deliveries::Plan) -> ExitCode {
    let figures = deliveries::work_off(plan).await;
    println!("{} deliveries on {:?} by {} workers, {:?} for each", plan.deliveries, plan.kind, plan.workers, plan.pace);
    println!("all settled after {:.2?}; killed {} times, {} gaps told", figures.lasted, figures.kills, figures.gaps);
    println!("handlers were called {} times, of which {} were duplicates", figures.handled, figures.duplicates);
    println!("lost {}, again after a confirmed ack {}", figures.lost.len(), figures.again.len());
    if figures.lost.is_empty() && figures.again.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn number(argument: Option<String>, default: u64) -> u64 {
    argument.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("`{text}` is no number")))
}
