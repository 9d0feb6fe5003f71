//! Tidings beside RustStream and SeaStreamer, in turns:
//! `cargo run --release --manifest-path peers/Cargo.toml [memory|redis|streams|kafka|nats] [entries]`.
//!
//! All sides encode and decode the same struct with serde_json's text, on the same server, in the same run. Of RustStream's
//! topics its brokers are run alone, without the handlers and the routing that it puts on top; its streams are consumed by
//! handlers. `entries` is for a short run of the streams.

#![allow(clippy::disallowed_methods, reason = "a bench spawns, and measures by the wall clock")]

mod kafka;
#[path = "../../tests/benches/topics/measure.rs"]
mod measure;
mod nats;
#[path = "../../tests/benches/payload/mod.rs"]
mod payload;
mod rounds;
mod streams;
#[path = "../../tests/benches/streams/text.rs"]
mod text;

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use ruststream::SubscriptionSource as _;
use ruststream::memory::MemoryBroker;
use ruststream::{Broker as _, BytesMut, IncomingMessage as _, OutgoingMessage, Publisher as _, Subscriber as _};
use ruststream_fred::pubsub::{Publish, RedisPubSub};
use ruststream_fred::{ConnectedRedisBroker, RedisBroker};
use tidings::backend::{Memory, Redis};
use tidings::{Broker, Config, Limits, Namespace};
use tidings_tests::harness::{Kind, RedisOptions, Server};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use measure::{ROUND, Way, print, take_turns, thread_time};
use payload::Order;

const CHANNEL: &str = "bench.orders";
/// The kernel counts a thread's time in steps of 4 ms, which is little beside a round of this many.
const IN_MEMORY: u32 = 100_000;

type Run = fn(Option<u32>) -> Result<(), String>;

fn main() -> ExitCode {
    let (numbers, wanted): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.parse::<u32>().is_ok());
    let entries = numbers.first().and_then(|word| word.parse().ok());
    let runs: [(_, Run); 5] = [
        ("memory", |_| in_memory()),
        ("redis", |_| over_redis()),
        ("streams", streams::run),
        ("kafka", kafka::run),
        ("nats", nats::run),
    ];
    for (name, run) in runs {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        if let Err(problem) = run(entries) {
            eprintln!("peers: {name}: {problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn in_time<R>(runtime: &Runtime, round: impl Future<Output = Result<R, String>>) -> Result<R, String> {
    runtime.block_on(async { timeout(ROUND, round).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
}

fn config() -> Result<Config, String> {
    let limits = Limits::default().buffer_messages(65_536).buffer_bytes(64 << 20);
    Ok(Config::new(Namespace::new("bench", "peers").map_err(shown)?).limits(limits))
}

fn json(order: &Order) -> Vec<u8> {
    serde_json::to_vec(black_box(order)).expect("an order is encoded")
}

fn same(received: &Order, number: u32) -> Result<(), String> {
    if received.id() == u64::from(number) { Ok(()) } else { Err(format!("message {number} was lost")) }
}

fn in_memory() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(shown)?;
    for receivers in [1, 8] {
        let rows = take_turns(
            IN_MEMORY * receivers,
            None,
            vec![
                Way::new("tidings", || in_time(&runtime, tidings_in_memory(receivers))),
                Way::new("ruststream's memory broker", || in_time(&runtime, ruststream_in_memory(receivers))),
            ],
        )?;
        print(&format!("memory, 1→{receivers}, a struct of ten fields"), &rows, 1.0);
    }
    Ok(())
}

async fn tidings_in_memory(receivers: u32) -> Result<Duration, String> {
    let broker = Broker::new(Memory::new(), config()?).map_err(shown)?;
    let topic = Order::topic(&broker).map_err(shown)?;
    let mut subscriptions = Vec::new();
    for _ in 0..receivers {
        subscriptions.push(topic.subscribe(&7).await.map_err(shown)?);
    }
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..IN_MEMORY {
        order.renumber(number.into());
        topic.publish(&7, black_box(&order)).await.map_err(shown)?;
        for subscription in &mut subscriptions {
            same(black_box(&subscription.receive().await.map_err(shown)?), number)?;
        }
    }
    Ok(thread_time().saturating_sub(start))
}

async fn ruststream_in_memory(receivers: u32) -> Result<Duration, String> {
    let broker = MemoryBroker::new();
    let mut subscribers: Vec<_> = (0..receivers).map(|_| broker.subscribe(CHANNEL)).collect();
    let publisher = broker.publisher();
    let mut streams: Vec<_> = subscribers.iter_mut().map(|subscriber| Box::pin(subscriber.stream())).collect();
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..IN_MEMORY {
        order.renumber(number.into());
        let payload: BytesMut = bytes::Bytes::from(json(&order)).into();
        publisher.publish(OutgoingMessage::produced(CHANNEL, payload), None).await.map_err(shown)?;
        for stream in &mut streams {
            let message = stream.next().await.ok_or("the subscription ended")?.map_err(shown)?;
            same(black_box(&serde_json::from_slice(message.payload()).map_err(shown)?), number)?;
            message.ack().await.map_err(shown)?;
        }
    }
    Ok(thread_time().saturating_sub(start))
}

fn over_redis() -> Result<(), String> {
    let runtime = Runtime::new().map_err(shown)?;
    let server = runtime.block_on(Server::start(Kind::Redis8, RedisOptions::default()));
    let broker = Broker::new(Redis::new(server.url()).map_err(shown)?, config()?).map_err(shown)?;
    let fred = Arc::new(runtime.block_on(RedisBroker::standalone(server.url()).connect()).map_err(shown)?);
    for (tasks, messages) in [(1, 4_000), (16, 40_000), (256, 61_440), (4_096, 81_920)] {
        let rows = take_turns(
            messages,
            Some(server.pid()),
            vec![
                Way::new("tidings", || in_time(&runtime, tidings_publishes(&broker, tasks, messages))),
                Way::new("ruststream-fred", || in_time(&runtime, fred_publishes(&fred, tasks, messages))),
            ],
        )?;
        print(&format!("redis, publish, {tasks} at once"), &rows, 1.0);
    }
    let (tasks, messages) = (256, 51_200);
    let rows = take_turns(
        messages,
        Some(server.pid()),
        vec![
            Way::new("tidings", || in_time(&runtime, tidings_end_to_end(&broker, tasks, messages))),
            Way::new("ruststream-fred", || in_time(&runtime, fred_end_to_end(&fred, tasks, messages))),
        ],
    )?;
    print(&format!("redis, end to end, {tasks} publish at once and one receives"), &rows, 1.0);
    Ok(())
}

async fn all_done(mut running: JoinSet<Result<(), String>>, start: Instant) -> Result<Duration, String> {
    while let Some(done) = running.join_next().await {
        done.map_err(shown)??;
    }
    Ok(start.elapsed())
}

async fn tidings_publishes(broker: &Broker<Redis>, tasks: u32, messages: u32) -> Result<Duration, String> {
    let topic = Order::topic(broker).map_err(shown)?;
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (topic, order) = (topic.clone(), Order::new(1));
        running.spawn(async move {
            for _ in 0..messages / tasks {
                topic.publish(&7, &order).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

async fn fred_publishes(fred: &Arc<ConnectedRedisBroker>, tasks: u32, messages: u32) -> Result<Duration, String> {
    let publisher = Arc::new(fred.pubsub_publisher(Publish::new()));
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (publisher, order) = (publisher.clone(), Order::new(1));
        running.spawn(async move {
            for _ in 0..messages / tasks {
                publisher.publish(OutgoingMessage::new(CHANNEL, &json(&order)), None).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

async fn tidings_end_to_end(broker: &Broker<Redis>, tasks: u32, messages: u32) -> Result<Duration, String> {
    let mut subscription = Order::topic(broker).map_err(shown)?.subscribe(&7).await.map_err(shown)?;
    let start = Instant::now();
    let received = async {
        for _ in 0..messages {
            black_box(subscription.receive().await.map_err(shown)?);
        }
        Ok(start.elapsed())
    };
    let (published, took) = tokio::join!(tidings_publishes(broker, tasks, messages), received);
    subscription.close().await;
    published.and(took)
}

async fn fred_end_to_end(fred: &Arc<ConnectedRedisBroker>, tasks: u32, messages: u32) -> Result<Duration, String> {
    let buffer = NonZeroUsize::new(65_536).expect("it isn't zero");
    let mut subscriber = RedisPubSub::new(CHANNEL).buffer(buffer).subscribe(fred).await.map_err(shown)?;
    let mut stream = pin!(subscriber.stream());
    let start = Instant::now();
    let received = async {
        for _ in 0..messages {
            let message = stream.next().await.ok_or("the subscription ended")?.map_err(shown)?;
            let order: Order = serde_json::from_slice(message.payload()).map_err(shown)?;
            black_box(order);
        }
        Ok(start.elapsed())
    };
    let (published, took) = tokio::join!(fred_publishes(fred, tasks, messages), received);
    published.and(took)
}
