//! The twin: `rdkafka` as people use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, Message as _};
use tokio::task::JoinSet;

use crate::measure::ROUND;
use crate::text::{BATCH, Seen, Text};
use crate::{all_done, share, shown};

/// The topic of the stream under the bench's namespace.
pub(crate) const TOPIC: &str = "bench.kafka.stream.bench.texts.v1";
const GROUP: &str = "bench-raw";
/// Those of each record.
const HEADERS: usize = 6;

/// When what was handled is committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commits {
    /// Each so many, and nothing more is handled before the server has confirmed it.
    Each,
    /// Each so many, and nobody looks at the answer.
    EachUnconfirmed,
    /// By the client, once a second.
    ByItself,
}

pub(crate) struct Raw {
    address: String,
    producer: FutureProducer,
}

impl Raw {
    pub(crate) fn new(address: &str) -> Result<Self, String> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", address)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("socket.nagle.disable", "true")
            .create()
            .map_err(shown)?;
        Ok(Self { address: address.to_owned(), producer })
    }

    pub(crate) async fn sends(&self, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (producer, mut text) = (self.producer.clone(), text.clone());
            running.spawn(async move {
                for number in share(task, tasks, entries) {
                    text.number = number;
                    send(&producer, &text, None).await?;
                }
                Ok(())
            });
        }
        all_done(running, start).await
    }

    /// Appends what the rounds consume.
    pub(crate) async fn fill(&self, text: &Text, entries: u32, partitions: u32) -> Result<(), String> {
        const TASKS: u32 = 250;
        let mut running = JoinSet::new();
        for task in 0..TASKS {
            let (producer, mut text) = (self.producer.clone(), text.clone());
            running.spawn(async move {
                for number in share(task, TASKS, entries) {
                    text.number = number;
                    let partition = i32::try_from(number % partitions).unwrap_or_default();
                    send(&producer, &text, Some(partition)).await?;
                }
                Ok(())
            });
        }
        all_done(running, Instant::now()).await.map(drop)
    }

    /// Consumes the whole topic by a new group.
    pub(crate) async fn consume(&self, seen: Arc<Seen>, commits: Commits) -> Result<(), String> {
        let manual = commits != Commits::ByItself;
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .set("group.id", format!("{GROUP}-{}", fresh()))
            .set("enable.auto.commit", if manual { "false" } else { "true" })
            .set("enable.auto.offset.store", if manual { "true" } else { "false" })
            .set("auto.commit.interval.ms", "1000")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .create()
            .map_err(shown)?;
        consumer.subscribe(&[TOPIC]).map_err(shown)?;
        let mut since = 0;
        while seen.count() < seen.all() {
            let message: BorrowedMessage<'_> = consumer.recv().await.map_err(shown)?;
            let text: Text = serde_json::from_slice(message.payload().unwrap_or_default()).map_err(shown)?;
            // A delivery has them, too; the client reads them only when it is asked to.
            let headers = message.headers().map_or(0, |headers| headers.iter().count());
            if headers < HEADERS {
                return Err(format!("{headers} of {HEADERS} headers came"));
            }
            seen.mark(&text)?;
            since += 1;
            if !manual {
                consumer.store_offset_from_message(&message).map_err(shown)?;
            } else if since == BATCH {
                since = 0;
                let mode = if commits == Commits::Each { CommitMode::Sync } else { CommitMode::Async };
                // It blocks for the answer, which is the fastest that the client has.
                consumer.commit_consumer_state(mode).map_err(shown)?;
            }
        }
        // What was handled last is committed, too, where the client hasn't done so by itself.
        let done = tokio::task::spawn_blocking(move || consumer.commit_consumer_state(CommitMode::Sync));
        match done.await.map_err(shown)? {
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
            done => done.map_err(shown),
        }
    }
}

/// Each round has a group of its own.
fn fresh() -> u32 {
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
    ROUNDS.fetch_add(1, Ordering::Relaxed)
}

async fn send(producer: &FutureProducer, text: &Text, partition: Option<i32>) -> Result<(), String> {
    let json = text.json();
    let header = |key, value| Header { key, value: Some(value) };
    // As many of the same length as the library's records have.
    let headers = OwnedHeaders::new()
        .insert(header("content-type", "application/json"))
        .insert(header("ce_specversion", "1.0"))
        .insert(header("ce_id", "01993f5e-7b1c-7000-8000-000000000000"))
        .insert(header("ce_source", "/bench/kafka"))
        .insert(header("ce_type", "bench.texts.v1"))
        .insert(header("ce_time", "2026-11-30T00:00:00.000Z"));
    let mut record = FutureRecord::<(), _>::to(TOPIC).payload(&json).headers(headers);
    record.partition = partition;
    producer.send(record, Timeout::After(ROUND)).await.map(drop).map_err(|(error, _)| shown(error))
}
