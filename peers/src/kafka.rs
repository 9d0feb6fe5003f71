//! Streams on Apache Kafka, beside SeaStreamer and RustStream.
//!
//! Each library appends the same JSON in its own records to a topic of its own, and consumes it through a group that is
//! new. A round fails unless every record came once, and unless the group has committed the ends of all partitions.

#[path = "../../tests/benches/kafka/consume.rs"]
mod consume;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use ruststream::{Broker as _, OutgoingMessage};
use ruststream_rdkafka::KafkaPublisher;
use ruststream_rdkafka::prelude::*;
use sea_streamer_kafka::{
    AutoOffsetReset, KafkaConsumer, KafkaConsumerOptions, KafkaProducer, KafkaProducerOptions, KafkaStreamer,
};
use sea_streamer_types::{
    Buffer as _, Consumer as _, ConsumerGroup, ConsumerMode, ConsumerOptions as _, Message as _, Producer, StreamKey,
    Streamer as _,
};
use tidings::backend::Kafka;
use tidings::{Broker, CommitGroup, Start, Stream, StreamSettings};
use tidings_tests::harness::{Kafka as Server, KafkaKind, KafkaOptions, eventually};
use tokio::runtime::Runtime;

use crate::measure::{ROUND, Way, print_beside, take_turns};
use crate::rounds::{Handled, Sender, TASKS, consuming, handles, now, sends};
use crate::text::{BATCH, Seen, Text};
use crate::{config, in_time, shown};

/// The libraries' topics.
const OURS: &str = "bench.peers.stream.bench.texts.v1";
const SEA: &str = "sea-texts";
const RUST: &str = "ruststream-texts";
/// Partitions of each topic.
const PARTITIONS: u16 = 4;
/// What tidings sets of a producer, where it differs from librdkafka's defaults in what a record takes.
const AS_OURS: [(&str, &str); 3] =
    [("enable.idempotence", "true"), ("linger.ms", "0"), ("socket.nagle.disable", "true")];

/// The server and the ways to it. Everything that can be is opened once, before the rounds.
struct Bench {
    runtime: Runtime,
    server: Server,
    view: View,
    stream: Stream<Text, Kafka>,
    group: CommitGroup<Text, Kafka>,
    streamer: KafkaStreamer,
    producers: [KafkaProducer; 2],
    publishers: [KafkaPublisher; 2],
    /// The peers' groups are new by their names.
    round: Cell<u32>,
}

/// Runs all rows, with so many records or the usual.
pub(crate) fn run(entries: Option<u32>) -> Result<(), String> {
    let bench = Bench::start()?;
    for bytes in [128, 1_024] {
        bench.append(bytes, entries.unwrap_or(61_440))?;
    }
    for bytes in [128, 1_024] {
        bench.consume(bytes, entries.unwrap_or(200_000))?;
    }
    Ok(())
}

impl Bench {
    fn start() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(shown)?;
        let server = runtime.block_on(Server::start(KafkaKind::Kafka44, KafkaOptions::default()));
        let address = server.address();
        let url = format!("kafka://{address}");
        let view = View::new(&address)?;
        let broker = Broker::new(Kafka::new(&url).map_err(shown)?, config()?).map_err(shown)?;
        let stream = Text::stream(&broker).map_err(shown)?;
        let group = stream.commit_group("bench").map_err(shown)?;
        let opened = runtime.block_on(async {
            stream.ensure(StreamSettings::new().partitions(PARTITIONS.into())).await.map_err(shown)?;
            for topic in [SEA, RUST] {
                server.create_topic(topic, PARTITIONS.into(), &[]).await;
            }
            let streamer =
                KafkaStreamer::connect(url.parse().map_err(shown)?, Default::default()).await.map_err(shown)?;
            let mut like_ours = KafkaProducerOptions::default();
            let (plain, mut also_like_ours) = (KafkaBroker::new([&*address]), KafkaBroker::new([&*address]));
            for (name, value) in AS_OURS {
                like_ours.add_custom_option(name, value);
                also_like_ours = also_like_ours.producer_config(name, value);
            }
            let producers = [
                streamer.create_producer(sea_key()?, Default::default()).await.map_err(shown)?,
                streamer.create_producer(sea_key()?, like_ours).await.map_err(shown)?,
            ];
            let publishers = [
                plain.connect().await.map_err(shown)?.publisher(Publish::default()),
                also_like_ours.connect().await.map_err(shown)?.publisher(Publish::default()),
            ];
            Ok::<_, String>((streamer, producers, publishers))
        });
        let (streamer, producers, publishers) = opened?;
        Ok(Self { runtime, server, view, stream, group, streamer, producers, publishers, round: Cell::new(0) })
    }

    fn append(&self, bytes: usize, entries: u32) -> Result<(), String> {
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.appending("tidings", OURS, &self.stream, bytes, entries),
                self.appending("sea-streamer", SEA, &self.producers[0], bytes, entries),
                self.appending("sea-streamer, set as tidings", SEA, &self.producers[1], bytes, entries),
                self.appending("ruststream-rdkafka", RUST, &self.publishers[0], bytes, entries),
                self.appending("ruststream-rdkafka, set as tidings", RUST, &self.publishers[1], bytes, entries),
            ],
        )?;
        print_beside(&format!("kafka, append, {bytes} B, {TASKS} at once"), &rows, &[None; 4]);
        Ok(())
    }

    /// A way of appending so many records to a topic that is empty before and has as many behind.
    fn appending<'a>(
        &'a self,
        name: &'static str,
        topic: &'static str,
        to: &'a impl Sender,
        bytes: usize,
        entries: u32,
    ) -> Way<'a> {
        let text = Text::new(bytes);
        let round = move || in_time(&self.runtime, sends(to, &text, TASKS, entries));
        Way::new(name, round).between(
            || self.runtime.block_on(self.view.empty(topic)),
            move || match self.view.records(topic)? {
                records if records == i64::from(entries) => Ok(()),
                records => Err(format!("there are {records} records, of {entries}")),
            },
        )
    }

    fn consume(&self, bytes: usize, entries: u32) -> Result<(), String> {
        self.runtime.block_on(async {
            for topic in [OURS, SEA, RUST] {
                self.view.empty(topic).await?;
            }
            let text = Text::new(bytes);
            sends(&self.stream, &text, TASKS, entries).await?;
            sends(&self.producers[1], &text, TASKS, entries).await?;
            sends(&self.publishers[1], &text, TASKS, entries).await
        })?;
        let rust = |name, mode| self.consuming(name, RUST, entries, move |seen| self.rust_handles(seen, mode));
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.consuming("tidings, read and commit", OURS, entries, |seen| {
                    now(consume::member(self.group.clone(), seen))
                }),
                self.consuming("tidings, worker", OURS, entries, |seen| now(consume::worker(self.group.clone(), seen))),
                self.consuming("sea-streamer, auto-commit", SEA, entries, |seen| self.sea_reads(seen)),
                self.consuming("sea-streamer, commits each page", SEA, entries, |seen| self.sea_commits(seen)),
                rust("ruststream-rdkafka, auto", Mode::Auto),
                rust("ruststream-rdkafka, tracked", Mode::Tracked),
                rust("ruststream-rdkafka, in batches", Mode::Batches),
            ],
        )?;
        print_beside(&format!("kafka, consume, {bytes} B"), &rows, &[None; 5]);
        Ok(())
    }

    /// A way of consuming a whole topic by a group that is new, and has committed the end of each partition behind.
    fn consuming<'a, F>(
        &'a self,
        name: &'static str,
        topic: &'static str,
        entries: u32,
        round: impl Fn(Arc<Seen>) -> F + 'a,
    ) -> Way<'a>
    where
        F: Future<Output = Result<Instant, String>>,
    {
        let begin = move || {
            self.round.set(self.round.get() + 1);
            if topic != OURS {
                return Ok(());
            }
            in_time(&self.runtime, async {
                self.group.delete().await.map_err(shown)?;
                self.group.ensure(Start::Earliest).await.map_err(shown)
            })
            .map(drop)
        };
        let done = move || {
            let group = if topic == OURS { format!("{OURS}.bench") } else { self.group() };
            // What commits in its drop may still be at it.
            let committed = || async { self.view.has_committed(&group, topic) };
            self.runtime.block_on(eventually(format!("{name} has committed all"), committed));
            Ok(())
        };
        consuming(&self.runtime, name, entries, round).between(begin, done)
    }

    fn group(&self) -> String {
        format!("bench-{}", self.round.get())
    }

    /// By its defaults: what was read is committed every five seconds and at the end, which isn't measured.
    async fn sea_reads(&self, seen: Arc<Seen>) -> Result<Instant, String> {
        let consumer = self.sea_consumer(true).await?;
        while seen.count() < seen.all() {
            let message = consumer.next().await.map_err(shown)?;
            seen.mark(&serde_json::from_slice(message.message().as_bytes()).map_err(shown)?)?;
        }
        Ok(Instant::now())
    }

    /// What a page brought is committed before the next, each partition by itself.
    async fn sea_commits(&self, seen: Arc<Seen>) -> Result<Instant, String> {
        let mut consumer = self.sea_consumer(false).await?;
        let (key, mut next) = (sea_key()?, BTreeMap::new());
        while seen.count() < seen.all() {
            let message = consumer.next().await.map_err(shown)?;
            seen.mark(&serde_json::from_slice(message.message().as_bytes()).map_err(shown)?)?;
            // `commit_message` would commit the message's own offset, so that it came again.
            next.insert(message.shard_id(), message.sequence() + 1);
            drop(message);
            if seen.count().is_multiple_of(BATCH) || seen.count() == seen.all() {
                for (partition, next) in std::mem::take(&mut next) {
                    consumer.commit(&key, &partition, &next).await.map_err(shown)?;
                }
            }
        }
        Ok(Instant::now())
    }

    async fn sea_consumer(&self, commits: bool) -> Result<KafkaConsumer, String> {
        let mut options = KafkaConsumerOptions::new(ConsumerMode::LoadBalanced);
        options.set_consumer_group(ConsumerGroup::new(self.group())).map_err(shown)?;
        options.set_auto_offset_reset(AutoOffsetReset::Earliest);
        options.set_enable_auto_commit(commits);
        self.streamer.create_consumer(&[sea_key()?], options).await.map_err(shown)
    }

    /// By an app with one handler.
    async fn rust_handles(&self, seen: Arc<Seen>, mode: Mode) -> Result<Instant, String> {
        let broker = KafkaBroker::new([self.server.address()]).default_group(self.group());
        let app = |handled| {
            RustStream::new(AppInfo::new("bench", "0.1.0"))
                .on_startup(async move |()| Ok::<_, Infallible>(handled))
                .with_broker(broker, |broker| match mode {
                    Mode::Auto => drop(broker.include(auto)),
                    Mode::Tracked => drop(broker.include(tracked)),
                    Mode::Batches => drop(broker.include(batches.batch(nonzero!(256usize)))),
                })
        };
        handles(seen, app, ready(())).await
    }
}

/// How RustStream consumes.
#[derive(Clone, Copy)]
enum Mode {
    Auto,
    Tracked,
    Batches,
}

#[subscriber(KafkaTopic::new(RUST).start(StartOffset::Earliest))]
async fn auto(text: &Text, context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take([text])
}

#[subscriber(KafkaTopic::new(RUST).start(StartOffset::Earliest).commit(Commit::Tracked))]
async fn tracked(text: &Text, context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take([text])
}

#[subscriber(KafkaTopic::new(RUST).start(StartOffset::Earliest).commit(Commit::Tracked))]
async fn batches(texts: &[Text], context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take(texts)
}

fn sea_key() -> Result<StreamKey, String> {
    StreamKey::new(SEA).map_err(shown)
}

impl Sender for KafkaProducer {
    async fn send(&self, text: &Text) -> Result<(), String> {
        let payload = serde_json::to_string(text).map_err(shown)?;
        Producer::send(self, payload).map_err(shown)?.await.map_err(shown).map(drop)
    }
}

impl Sender for KafkaPublisher {
    async fn send(&self, text: &Text) -> Result<(), String> {
        self.publish(OutgoingMessage::new(RUST, &text.json()), None).await.map_err(shown)
    }
}

/// What stands on the server, past all libraries.
struct View {
    config: ClientConfig,
    consumer: BaseConsumer,
    admin: AdminClient<DefaultClientContext>,
}

impl View {
    fn new(address: &str) -> Result<Self, String> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", address);
        let consumer = config.create().map_err(shown)?;
        let admin = config.create().map_err(shown)?;
        Ok(Self { config, consumer, admin })
    }

    /// The first offset of each partition, and the next one.
    fn bounds(&self, topic: &str) -> Result<Vec<(i64, i64)>, String> {
        let bounds = |partition| self.consumer.fetch_watermarks(topic, partition, ROUND).map_err(shown);
        (0..PARTITIONS.into()).map(bounds).collect()
    }

    fn records(&self, topic: &str) -> Result<i64, String> {
        Ok(self.bounds(topic)?.iter().map(|(first, next)| next - first).sum())
    }

    async fn empty(&self, topic: &str) -> Result<(), String> {
        let mut all = TopicPartitionList::new();
        for partition in 0..PARTITIONS.into() {
            all.add_partition_offset(topic, partition, Offset::End).map_err(shown)?;
        }
        self.admin.delete_records(&all, &AdminOptions::new()).await.map_err(shown)?;
        match self.records(topic)? {
            0 => Ok(()),
            records => Err(format!("{records} records are left")),
        }
    }

    /// Fails unless the group goes on at the end of each partition.
    fn has_committed(&self, group: &str, topic: &str) -> Result<(), String> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, i32::from(PARTITIONS) - 1);
        let group: BaseConsumer = self.config.clone().set("group.id", group).create().map_err(shown)?;
        let committed = group.committed_offsets(asked, ROUND).map_err(shown)?;
        for (at, (_, next)) in committed.elements().iter().zip(self.bounds(topic)?) {
            if at.offset() != Offset::Offset(next) {
                return Err(format!("partition {} is committed at {:?} of {next}", at.partition(), at.offset()));
            }
        }
        Ok(())
    }
}
