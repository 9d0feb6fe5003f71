//! Publishing to and receiving from a Redis server of the bench's own.
//!
//! The twin is the `redis` crate, used as its documentation shows. Both sides encode and decode the same struct.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo as _, PushInfo, Value};
use serde::{Deserialize, Serialize};
use tidings::backend::Redis;
use tidings::{Broker, Config, Limits, Namespace};
use tidings_tests::harness::{Kind, RedisOptions, Server};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measure::{ROUND, Way, print, take_turns};

/// The channel of the topic below under the bench's namespace.
const CHANNEL: &str = "bench.redis.topic.bench.texts.v1";
/// Messages of one pipeline and of one `publish_all`.
const BATCH: u32 = 256;
const RECEIVED: u32 = 50_000;

/// A payload whose length in JSON is chosen.
#[tidings::topic(name = "bench.texts", version = 1)]
#[derive(Clone, Serialize, Deserialize)]
struct Text {
    number: u32,
    text: String,
}

impl Text {
    fn new(bytes: usize) -> Self {
        let empty = Self { number: 0, text: String::new() };
        let frame = serde_json::to_vec(&empty).expect("a text is encoded").len();
        Self { text: "x".repeat(bytes - frame), ..empty }
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a text is encoded")
    }
}

/// The server and the ways to it. Everything is opened once, before the rounds.
struct Bench {
    runtime: Runtime,
    server: Server,
    broker: Broker<Redis>,
    delayed: MultiplexedConnection,
    undelayed: MultiplexedConnection,
}

pub(crate) fn run() -> Result<(), String> {
    let bench = Bench::start()?;
    for bytes in [128, 1_024] {
        // Tasks at once, messages of a round, and the ratio of rates that is aimed at.
        for (tasks, messages, least) in [(1, 4_000, 1.0), (16, 40_000, 1.0), (256, 61_440, 1.4), (4_096, 81_920, 2.0)] {
            bench.publish(bytes, tasks, messages, least)?;
        }
        bench.publish_all(bytes)?;
        bench.receive(bytes)?;
    }
    Ok(())
}

impl Bench {
    fn start() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(shown)?;
        let server = runtime.block_on(Server::start(Kind::Redis8, RedisOptions::default()));
        let namespace = Namespace::new("bench", "redis").map_err(shown)?;
        // A round's messages fit, so that none depends on how fast the receiver is.
        let limits = Limits::default().buffer_messages(65_536).buffer_bytes(64 << 20);
        let config = Config::new(namespace).limits(limits);
        let broker = Broker::new(Redis::new(server.url()).map_err(shown)?, config).map_err(shown)?;
        let connect = |nodelay| runtime.block_on(connection(&server.url(), nodelay, config_without_timeout()));
        let (delayed, undelayed) = (connect(false)?, connect(true)?);
        Ok(Self { runtime, server, broker, delayed, undelayed })
    }

    fn in_time<F>(&self, round: F) -> Result<Duration, String>
    where
        F: Future<Output = Result<Duration, String>>,
    {
        self.runtime
            .block_on(async { timeout(ROUND, round).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
    }

    fn publish(&self, bytes: usize, tasks: u32, messages: u32, least: f64) -> Result<(), String> {
        let text = Text::new(bytes);
        let raw = |connection: &MultiplexedConnection| self.in_time(raw_publishes(connection, &text, tasks, messages));
        let rows = take_turns(
            messages,
            Some(self.server.pid()),
            vec![
                Way::new("tidings", || self.in_time(publishes(&self.broker, &text, tasks, messages))),
                Way::new("redis, one connection", || raw(&self.delayed)),
                Way::new("redis, one connection, TCP_NODELAY", || raw(&self.undelayed)),
            ],
        )?;
        print(&format!("redis, publish, {bytes} B, {tasks} at once"), &rows, least);
        Ok(())
    }

    fn publish_all(&self, bytes: usize) -> Result<(), String> {
        const BATCHES: u32 = 200;
        let texts = vec![Text::new(bytes); BATCH as usize];
        let raw = |connection: &MultiplexedConnection| self.in_time(raw_pipelines(connection, &texts, BATCHES));
        let rows = take_turns(
            BATCH * BATCHES,
            Some(self.server.pid()),
            vec![
                Way::new("tidings", || self.in_time(batches(&self.broker, &texts, BATCHES))),
                Way::new("redis, pipeline", || raw(&self.delayed)),
                Way::new("redis, pipeline, TCP_NODELAY", || raw(&self.undelayed)),
            ],
        )?;
        print(&format!("redis, publish_all, {bytes} B, {BATCH} in a batch"), &rows, 0.9);
        Ok(())
    }

    fn receive(&self, bytes: usize) -> Result<(), String> {
        let text = Text::new(bytes);
        let url = self.server.url();
        let rows = take_turns(
            RECEIVED,
            Some(self.server.pid()),
            vec![
                Way::new("tidings", || self.in_time(receive(&self.broker, &self.undelayed, &text))),
                Way::new("redis, PubSub", || self.in_time(raw_receive(&url, &self.undelayed, &text))),
                Way::new("redis, RESP3 push", || self.in_time(raw_push(&url, &self.undelayed, &text))),
            ],
        )?;
        print(&format!("redis, receive, {bytes} B"), &rows, 0.95);
        Ok(())
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn config_without_timeout() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(None)
}

async fn connection(url: &str, nodelay: bool, config: AsyncConnectionConfig) -> Result<MultiplexedConnection, String> {
    let info = url.into_connection_info().map_err(shown)?;
    let client = Client::open(info.set_tcp_settings(TcpSettings::default().set_nodelay(nodelay))).map_err(shown)?;
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(shown)
}

/// Waits for all tasks, each of which has published its share.
async fn all_done(mut running: JoinSet<Result<(), String>>, start: Instant) -> Result<Duration, String> {
    while let Some(done) = running.join_next().await {
        done.map_err(shown)??;
    }
    Ok(start.elapsed())
}

async fn publishes(broker: &Broker<Redis>, text: &Text, tasks: u32, messages: u32) -> Result<Duration, String> {
    let topic = Text::topic(broker).map_err(shown)?;
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (topic, text) = (topic.clone(), text.clone());
        running.spawn(async move {
            for _ in 0..messages / tasks {
                topic.publish(&(), &text).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

async fn raw_publishes(
    connection: &MultiplexedConnection,
    text: &Text,
    tasks: u32,
    messages: u32,
) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (mut connection, text) = (connection.clone(), text.clone());
        running.spawn(async move {
            for _ in 0..messages / tasks {
                let mut publish = redis::cmd("PUBLISH");
                publish.arg(CHANNEL).arg(text.json());
                let _: u64 = publish.query_async(&mut connection).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

async fn batches(broker: &Broker<Redis>, texts: &[Text], batches: u32) -> Result<Duration, String> {
    let topic = Text::topic(broker).map_err(shown)?;
    let start = Instant::now();
    for _ in 0..batches {
        for outcome in topic.publish_all(texts.iter().map(|text| (&(), text))).await.map_err(shown)? {
            outcome.map_err(shown)?;
        }
    }
    Ok(start.elapsed())
}

async fn raw_pipelines(connection: &MultiplexedConnection, texts: &[Text], batches: u32) -> Result<Duration, String> {
    let mut connection = connection.clone();
    let start = Instant::now();
    for _ in 0..batches {
        pipeline(&mut connection, texts.iter()).await?;
    }
    Ok(start.elapsed())
}

async fn pipeline<'a>(
    connection: &mut MultiplexedConnection,
    texts: impl Iterator<Item = &'a Text>,
) -> Result<Vec<u64>, String> {
    let mut pipeline = redis::pipe();
    for text in texts {
        pipeline.cmd("PUBLISH").arg(CHANNEL).arg(text.json());
    }
    pipeline.query_async(connection).await.map_err(shown)
}

/// Publishes what a round receives, in pipelines; the same for every way of receiving.
fn feed(connection: &MultiplexedConnection, text: &Text) -> tokio::task::JoinHandle<Result<(), String>> {
    let (mut connection, mut text) = (connection.clone(), text.clone());
    tokio::spawn(async move {
        let mut numbers = 0..RECEIVED;
        while !numbers.is_empty() {
            let mut publishes = redis::pipe();
            for number in numbers.by_ref().take(BATCH as usize) {
                text.number = number;
                publishes.cmd("PUBLISH").arg(CHANNEL).arg(text.json()).ignore();
            }
            publishes.exec_async(&mut connection).await.map_err(shown)?;
        }
        Ok(())
    })
}

fn same(received: &Text, number: u32) -> Result<(), String> {
    if received.number == number { Ok(()) } else { Err(format!("message {number} was lost")) }
}

async fn receive(broker: &Broker<Redis>, publisher: &MultiplexedConnection, text: &Text) -> Result<Duration, String> {
    let topic = Text::topic(broker).map_err(shown)?;
    let mut subscription = topic.subscribe(&()).await.map_err(shown)?;
    let start = Instant::now();
    let feed = feed(publisher, text);
    for number in 0..RECEIVED {
        same(&subscription.receive().await.map_err(shown)?, number)?;
    }
    let took = start.elapsed();
    feed.await.map_err(shown)??;
    subscription.close().await;
    Ok(took)
}

async fn raw_receive(url: &str, publisher: &MultiplexedConnection, text: &Text) -> Result<Duration, String> {
    let mut pubsub = Client::open(url).map_err(shown)?.get_async_pubsub().await.map_err(shown)?;
    pubsub.subscribe(CHANNEL).await.map_err(shown)?;
    let mut messages = pubsub.into_on_message();
    let start = Instant::now();
    let feed = feed(publisher, text);
    for number in 0..RECEIVED {
        let message = messages.next().await.ok_or("the connection ended")?;
        same(&serde_json::from_slice(message.get_payload_bytes()).map_err(shown)?, number)?;
    }
    let took = start.elapsed();
    feed.await.map_err(shown)??;
    Ok(took)
}

async fn raw_push(url: &str, publisher: &MultiplexedConnection, text: &Text) -> Result<Duration, String> {
    let (sender, mut pushed) = tokio::sync::mpsc::unbounded_channel::<PushInfo>();
    let config = config_without_timeout().set_push_sender(sender);
    let mut connection = connection(&format!("{url}?protocol=resp3"), true, config).await?;
    connection.subscribe(CHANNEL).await.map_err(shown)?;
    let start = Instant::now();
    let feed = feed(publisher, text);
    let mut number = 0;
    while number < RECEIVED {
        let push = pushed.recv().await.ok_or("the connection ended")?;
        if push.kind != redis::PushKind::Message {
            continue;
        }
        let Some(Value::BulkString(payload)) = push.data.get(1) else { return Err("a push without a payload".into()) };
        same(&serde_json::from_slice(payload).map_err(shown)?, number)?;
        number += 1;
    }
    let took = start.elapsed();
    feed.await.map_err(shown)??;
    Ok(took)
}
