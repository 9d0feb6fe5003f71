//! Streams on one Redis server, beside SeaStreamer and RustStream.
//!
//! Each library appends the same JSON in its own records to a stream of its own, and consumes it through a group that is
//! new. A round fails unless every entry came once, and unless nothing is pending or unread behind.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use ruststream::{Broker as _, BytesMut, OutgoingMessage, Publisher as _};
use ruststream_fred::stream::prelude::*;
use ruststream_fred::{RedisBroker, RedisPublisher};
use sea_streamer_redis::{AutoCommit, RedisConsumerOptions, RedisProducer, RedisStreamer};
use sea_streamer_types::{
    Buffer as _, Consumer as _, ConsumerGroup, ConsumerMode, ConsumerOptions as _, Message as _, Producer, StreamKey,
    Streamer as _,
};
use tidings::backend::Redis;
use tidings::{AckGroup, Broker, Start, Stream, StreamSettings};
use tidings_tests::harness::{Kind, RedisOptions, Server};
use tokio::runtime::Runtime;

use crate::measure::{Way, print_beside, take_turns};
use crate::rounds::{Handled, Sender, TASKS, consuming, handles, now, sends};
use crate::text::{BATCH, Seen, Text, consumer, worker};
use crate::{config, in_time, shown};

const GROUP: &str = "bench";
/// The libraries' streams.
const OURS: &str = "{bench.peers.stream.bench.texts.v1.p0}:log";
const SEA: &str = "sea-texts";
const FRED: &str = "fred-texts";
/// The server and the ways to it. Everything that can be is opened once, before the rounds.
struct Bench {
    runtime: Runtime,
    server: Server,
    stream: Stream<Text, Redis>,
    group: AckGroup<Text, Redis>,
    streamer: RedisStreamer,
    producer: RedisProducer,
    publisher: RedisPublisher,
}

/// Runs all rows, with so many entries or the usual.
pub(crate) fn run(entries: Option<u32>) -> Result<(), String> {
    let bench = Bench::start()?;
    bench.append(128, entries.unwrap_or(61_440))?;
    for bytes in [128, 1_024] {
        bench.consume(bytes, entries.unwrap_or(100_000))?;
    }
    Ok(())
}

impl Bench {
    fn start() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(shown)?;
        let server = runtime.block_on(Server::start(Kind::Redis8, RedisOptions::default().config("appendonly no")));
        let broker = Broker::new(Redis::new(server.url()).map_err(shown)?, config()?).map_err(shown)?;
        let stream = Text::stream(&broker).map_err(shown)?;
        let group = stream.ack_group(GROUP).map_err(shown)?;
        let (streamer, producer, publisher) = runtime.block_on(async {
            stream.ensure(StreamSettings::new()).await.map_err(shown)?;
            let uri = server.url().parse().map_err(shown)?;
            let streamer = RedisStreamer::connect(uri, Default::default()).await.map_err(shown)?;
            let producer = streamer.create_producer(sea_key()?, Default::default()).await.map_err(shown)?;
            let fred = RedisBroker::standalone(server.url()).connect().await.map_err(shown)?;
            Ok::<_, String>((streamer, producer, fred.publisher()))
        })?;
        Ok(Self { runtime, server, stream, group, streamer, producer, publisher })
    }

    fn append(&self, bytes: usize, entries: u32) -> Result<(), String> {
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.appending("tidings", OURS, &self.stream, bytes, entries),
                self.appending("sea-streamer", SEA, &self.producer, bytes, entries),
                self.appending("ruststream-fred", FRED, &self.publisher, bytes, entries),
            ],
        )?;
        print_beside(&format!("redis, append, {bytes} B, {TASKS} at once"), &rows, &[Some(1.0); 2]);
        Ok(())
    }

    /// A way of appending so many entries to a stream that is empty before, each of which is there once behind.
    fn appending<'a>(
        &'a self,
        name: &'static str,
        key: &'static str,
        to: &'a impl Sender,
        bytes: usize,
        entries: u32,
    ) -> Way<'a> {
        let text = Text::new(bytes);
        let round = move || in_time(&self.runtime, sends(to, &text, TASKS, entries));
        Way::new(name, round).between(
            || self.runtime.block_on(self.empty(key)),
            move || self.runtime.block_on(self.is_complete(key, entries)),
        )
    }

    async fn empty(&self, key: &str) -> Result<(), String> {
        self.server.command(&["XTRIM", key, "MAXLEN", "0"]).await;
        Ok(())
    }

    /// Fails unless each entry is there once. In each library's records the payload is the last value.
    async fn is_complete(&self, key: &str, entries: u32) -> Result<(), String> {
        let seen = Seen::new(entries);
        let mut from = "-".to_owned();
        loop {
            let page = self.server.command(&["XRANGE", key, &from, "+", "COUNT", "256"]).await;
            let Some(last) = page.elements().last() else { return seen.is_complete() };
            from = format!("({}", last.elements()[0].text());
            for entry in page.elements() {
                let payload = entry.elements()[1].elements().last().ok_or("an entry without a payload")?;
                seen.mark(&serde_json::from_str(&payload.text()).map_err(shown)?)?;
            }
        }
    }

    fn consume(&self, bytes: usize, entries: u32) -> Result<(), String> {
        self.runtime.block_on(async {
            for key in [OURS, SEA, FRED] {
                self.empty(key).await?;
            }
            let text = Text::new(bytes);
            sends(&self.stream, &text, TASKS, entries).await?;
            sends(&self.producer, &text, TASKS, entries).await?;
            sends(&self.publisher, &text, TASKS, entries).await
        })?;
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.consuming("tidings, read and ack", OURS, entries, |seen| now(consumer(&self.group, seen))),
                self.consuming("tidings, worker", OURS, entries, |seen| {
                    now(worker(&self.group, seen, |worker| worker))
                }),
                self.consuming("sea-streamer, rolling", SEA, entries, |seen| self.sea_rolls(seen)),
                self.consuming("sea-streamer, commits each page", SEA, entries, |seen| self.sea_commits(seen)),
                self.consuming("ruststream-fred", FRED, entries, |seen| self.fred_handles(seen, false)),
                self.consuming("ruststream-fred, .pipeline()", FRED, entries, |seen| self.fred_handles(seen, true)),
            ],
        )?;
        print_beside(&format!("redis, consume, {bytes} B"), &rows, &[5.0, 5.0, 1.0, 1.0].map(Some));
        Ok(())
    }

    /// A way of consuming a whole stream through a group that is new, and has nothing pending or unread behind. A round says
    /// when it was done.
    fn consuming<'a, F>(
        &'a self,
        name: &'static str,
        key: &'static str,
        entries: u32,
        round: impl Fn(Arc<Seen>) -> F + 'a,
    ) -> Way<'a>
    where
        F: Future<Output = Result<Instant, String>>,
    {
        consuming(&self.runtime, name, entries, round)
            .between(|| self.runtime.block_on(self.begin(key)), move || self.runtime.block_on(self.is_done(key)))
    }

    /// Makes the stream's only group anew, at the first entry.
    async fn begin(&self, key: &str) -> Result<(), String> {
        if key == OURS {
            self.group.delete().await.map_err(shown)?;
            return self.group.ensure(Start::Earliest).await.map_err(shown).map(drop);
        }
        self.server.command(&["XGROUP", "DESTROY", key, GROUP]).await;
        self.server.command(&["XGROUP", "CREATE", key, GROUP, "0"]).await;
        Ok(())
    }

    async fn is_done(&self, key: &str) -> Result<(), String> {
        let groups = self.server.command(&["XINFO", "GROUPS", key]).await;
        let group = groups.elements().first().ok_or("the group is gone")?.elements();
        let number = |name: &str| group.chunks_exact(2).find(|pair| pair[0].text() == name).map(|pair| pair[1].text());
        match (number("pending").as_deref(), number("lag").as_deref()) {
            (Some("0"), Some("0")) => Ok(()),
            (pending, lag) => Err(format!("there are still {pending:?} pending and {lag:?} unread")),
        }
    }

    /// In the mode that its docs recommend: each is acknowledged once it is handled, which goes out every second.
    /// The end isn't measured: it waits for the read ahead, which is up to ten seconds.
    async fn sea_rolls(&self, seen: Arc<Seen>) -> Result<Instant, String> {
        let options = sea_options(AutoCommit::Rolling)?;
        let consumer = self.streamer.create_consumer(&[sea_key()?], options).await.map_err(shown)?;
        loop {
            let message = consumer.next().await.map_err(shown)?;
            let last = seen.mark(&serde_json::from_slice(message.message().as_bytes()).map_err(shown)?)?;
            consumer.ack(&message).map_err(shown)?;
            if last {
                break;
            }
        }
        let at = Instant::now();
        consumer.end().await.map_err(shown).map(|()| at)
    }

    /// In the mode where it reads when it is asked: what a page brought is acknowledged before the next.
    async fn sea_commits(&self, seen: Arc<Seen>) -> Result<Instant, String> {
        let options = sea_options(AutoCommit::Disabled)?;
        let mut consumer = self.streamer.create_consumer(&[sea_key()?], options).await.map_err(shown)?;
        while seen.count() < seen.all() {
            let message = consumer.next().await.map_err(shown)?;
            seen.mark(&serde_json::from_slice(message.message().as_bytes()).map_err(shown)?)?;
            consumer.ack(&message).map_err(shown)?;
            if seen.count().is_multiple_of(BATCH) || seen.count() == seen.all() {
                consumer.commit().map_err(shown)?.await.map_err(shown)?;
            }
        }
        Ok(Instant::now())
    }

    /// By an app with one handler.
    async fn fred_handles(&self, seen: Arc<Seen>, pipeline: bool) -> Result<Instant, String> {
        let broker = RedisBroker::standalone(self.server.url());
        let app = |handled| {
            RustStream::new(AppInfo::new("bench", "0.1.0"))
                .on_startup(async move |()| Ok::<_, Infallible>(handled))
                .with_broker(broker, |broker| {
                    if pipeline {
                        broker.include(handle.pipeline());
                    } else {
                        broker.include(handle);
                    }
                })
        };
        handles(seen, app, ready(())).await
    }
}

fn sea_key() -> Result<StreamKey, String> {
    StreamKey::new(SEA).map_err(shown)
}

fn sea_options(commit: AutoCommit) -> Result<RedisConsumerOptions, String> {
    let mut options = RedisConsumerOptions::new(ConsumerMode::LoadBalanced);
    options.set_consumer_group(ConsumerGroup::new(GROUP)).map_err(shown)?;
    options.set_auto_commit(commit);
    if commit == AutoCommit::Disabled {
        options.set_batch_size(BATCH as usize);
    }
    Ok(options)
}

#[subscriber(RedisStream::new(FRED).group(GROUP))]
async fn handle(text: &Text, context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take([text])
}

impl Sender for RedisProducer {
    async fn send(&self, text: &Text) -> Result<(), String> {
        let payload = serde_json::to_string(text).map_err(shown)?;
        Producer::send(self, payload).map_err(shown)?.await.map_err(shown).map(drop)
    }
}

impl Sender for RedisPublisher {
    async fn send(&self, text: &Text) -> Result<(), String> {
        let payload: BytesMut = bytes::Bytes::from(text.json()).into();
        self.publish(OutgoingMessage::produced(FRED, payload), None).await.map_err(shown)
    }
}
