//! Topics and streams on one NATS server, beside RustStream.
//!
//! Each library sends the same JSON in its own messages to a subject of its own. A round fails unless every message came
//! once, and unless the server holds all of them, or nothing that isn't settled.

#[path = "../../tests/benches/nats/consume.rs"]
mod consume;

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use ruststream::{OutgoingMessage, Subscriber as _};
use ruststream_nats::prelude::*;
use ruststream_nats::{
    ConnectedNatsBroker, CoreSubject, JetStreamPublish, JetStreamPublisher, JetStreamSubject, NatsPublish,
    NatsPublisher,
};
use serde_json::Value;
use tidings::backend::Nats;
use tidings::{Durable, DurableOwner, DurableSettings, Stream, StreamSettings, Topic};
use tidings_tests::harness::{Nats as Server, NatsKind, NatsOptions, eventually};
use tokio::runtime::Runtime;

use crate::measure::{ROUND, Way, print_beside, take_turns};
use crate::rounds::{Handled, Sender, TASKS, consuming, handles, sends};
use crate::text::{BATCH, Seen, Text};
use crate::{config, in_time, shown};

/// RustStream's subject without JetStream.
const SUBJECT: &str = "ruststream.texts";
/// The libraries' streams; RustStream's subject has the same name.
const OURS: &str = "bench_peers_stream_bench_texts_v1";
const RUST: &str = "ruststream-texts";
/// Deliveries that a durable may have unsettled, which is RustStream's default.
const IN_FLIGHT: u32 = 1_024;

/// The server and the ways to it, which are opened once, before the rounds.
struct Bench {
    runtime: Runtime,
    server: Server,
    broker: tidings::Broker<Nats>,
    topic: Topic<Text, Nats>,
    stream: Stream<Text, Nats>,
    rust: Arc<ConnectedNatsBroker>,
    core: NatsPublisher,
    jetstream: JetStreamPublisher,
}

/// Runs all rows, with so many entries to consume or the usual.
pub(crate) fn run(entries: Option<u32>) -> Result<(), String> {
    let bench = Bench::start()?;
    for bytes in [128, 1_024] {
        bench.publish(bytes)?;
        bench.end_to_end(bytes)?;
    }
    for bytes in [128, 1_024] {
        bench.append(bytes)?;
    }
    for bytes in [128, 1_024] {
        bench.one_by_one(bytes)?;
        // A batch that isn't full waits for more.
        bench.consume(bytes, entries.unwrap_or(40_960).next_multiple_of(BATCH))?;
    }
    Ok(())
}

fn connect(server: &Server) -> Result<tidings::Broker<Nats>, String> {
    tidings::Broker::new(Nats::new(server.url()).map_err(shown)?, config()?).map_err(shown)
}

fn durable(broker: &tidings::Broker<Nats>) -> Result<Durable<Text, Nats>, String> {
    let owner = DurableOwner::module("bench").map_err(shown)?;
    Text::stream(broker).map_err(shown)?.durable(&owner).map_err(shown)
}

impl Bench {
    fn start() -> Result<Self, String> {
        let runtime = Runtime::new().map_err(shown)?;
        let server = runtime.block_on(Server::start(NatsKind::Nats215, NatsOptions::default()));
        let broker = connect(&server)?;
        let topic = Text::topic(&broker).map_err(shown)?;
        let stream = Text::stream(&broker).map_err(shown)?;
        let rust = runtime.block_on(async {
            stream.ensure(StreamSettings::new()).await.map_err(shown)?;
            let rust = NatsBroker::new(server.url()).connect().await.map_err(shown)?;
            rust.jetstream().create_stream(RUST).await.map_err(shown)?;
            Ok::<_, String>(Arc::new(rust))
        })?;
        let core = rust.publisher(NatsPublish);
        let jetstream = rust.publisher(JetStreamPublish::default());
        Ok(Self { runtime, server, broker, topic, stream, rust, core, jetstream })
    }

    fn publish(&self, bytes: usize) -> Result<(), String> {
        let flushed = Flushed { publisher: self.core.clone(), connected: self.rust.clone() };
        for (tasks, messages) in [(1, 20_000), (TASKS, 61_440)] {
            let rows = take_turns(
                messages,
                Some(self.server.pid()),
                vec![
                    self.publishing("tidings", &self.topic, bytes, tasks, messages),
                    self.publishing("ruststream-nats, not confirmed", &self.core, bytes, tasks, messages),
                    self.publishing("ruststream-nats, and a flush", &flushed, bytes, tasks, messages),
                ],
            )?;
            print_beside(&format!("nats, publish, {bytes} B, {tasks} at once"), &rows, &[None; 2]);
        }
        Ok(())
    }

    /// A way of publishing so many messages, all of which the server has taken behind.
    fn publishing<'a>(
        &'a self,
        name: &'static str,
        to: &'a impl Sender,
        bytes: usize,
        tasks: u32,
        messages: u32,
    ) -> Way<'a> {
        let text = Text::new(bytes);
        let before = Rc::new(Cell::new(0));
        let all = before.clone();
        let round = move || in_time(&self.runtime, sends(to, &text, tasks, messages));
        Way::new(name, round).between(
            move || {
                before.set(self.runtime.block_on(self.taken()));
                Ok(())
            },
            move || {
                let taken = || async {
                    match self.taken().await - all.get() {
                        taken if taken == u64::from(messages) => Ok(()),
                        taken => Err(format!("it took {taken} of {messages}")),
                    }
                };
                // What isn't confirmed may still be on its way.
                self.runtime.block_on(eventually(format!("the server took all of {name}"), taken));
                Ok(())
            },
        )
    }

    /// How many messages clients have sent.
    async fn taken(&self) -> u64 {
        self.server.monitor("/varz").await["in_msgs"].as_u64().unwrap_or_default()
    }

    fn end_to_end(&self, bytes: usize) -> Result<(), String> {
        let (text, messages) = (Text::new(bytes), 51_200);
        let rows = take_turns(
            messages,
            Some(self.server.pid()),
            vec![
                Way::new("tidings", || in_time(&self.runtime, self.we_receive(&text, messages))),
                Way::new("ruststream-nats", || in_time(&self.runtime, self.rust_receives(&text, messages))),
            ],
        )?;
        print_beside(&format!("nats, end to end, {bytes} B, {TASKS} publish at once and one receives"), &rows, &[None]);
        Ok(())
    }

    async fn we_receive(&self, text: &Text, messages: u32) -> Result<Duration, String> {
        let mut subscription = self.topic.subscribe(&()).await.map_err(shown)?;
        let (seen, start) = (Seen::new(messages), Instant::now());
        let received = async {
            while seen.count() < seen.all() {
                seen.mark(&subscription.receive().await.map_err(shown)?)?;
            }
            Ok(start.elapsed())
        };
        let (sent, took) = tokio::join!(sends(&self.topic, text, TASKS, messages), received);
        subscription.close().await;
        sent.and(took)
    }

    async fn rust_receives(&self, text: &Text, messages: u32) -> Result<Duration, String> {
        let mut subscriber = self.rust.subscribe_with(CoreSubject::new(SUBJECT)).await.map_err(shown)?;
        let mut stream = pin!(subscriber.stream());
        let (seen, start) = (Seen::new(messages), Instant::now());
        let received = async {
            while seen.count() < seen.all() {
                let message = stream.next().await.ok_or("the subscription ended")?.map_err(shown)?;
                seen.mark(&serde_json::from_slice(message.payload()).map_err(shown)?)?;
            }
            Ok(start.elapsed())
        };
        let (sent, took) = tokio::join!(sends(&self.core, text, TASKS, messages), received);
        sent.and(took)
    }

    fn append(&self, bytes: usize) -> Result<(), String> {
        for (tasks, entries) in [(1, 2_000), (TASKS, 40_960)] {
            let rows = take_turns(
                entries,
                Some(self.server.pid()),
                vec![
                    self.appending("tidings", OURS, &self.stream, bytes, tasks, entries),
                    self.appending("ruststream-nats", RUST, &self.jetstream, bytes, tasks, entries),
                ],
            )?;
            print_beside(&format!("nats, append, {bytes} B, {tasks} at once"), &rows, &[None]);
        }
        Ok(())
    }

    /// A way of appending so many entries to a stream that is empty before and has as many behind.
    fn appending<'a>(
        &'a self,
        name: &'static str,
        stream: &'static str,
        to: &'a impl Sender,
        bytes: usize,
        tasks: u32,
        entries: u32,
    ) -> Way<'a> {
        let text = Text::new(bytes);
        let round = move || in_time(&self.runtime, sends(to, &text, tasks, entries));
        let complete = move || match self.runtime.block_on(self.about(stream))?["state"]["messages"].as_u64() {
            Some(there) if there == u64::from(entries) => Ok(()),
            there => Err(format!("there are {there:?} entries, of {entries}")),
        };
        Way::new(name, round).between(move || self.runtime.block_on(self.empty(stream)), complete)
    }

    async fn empty(&self, stream: &str) -> Result<(), String> {
        let stream = self.rust.jetstream().get_stream(stream).await.map_err(shown)?;
        stream.purge().await.map_err(shown).map(drop)
    }

    /// What the server says of a stream and its consumers.
    async fn about(&self, stream: &str) -> Result<Value, String> {
        let all = self.server.monitor("/jsz?consumers=true").await;
        let mut streams = all["account_details"][0]["stream_detail"].as_array().into_iter().flatten();
        let about = streams.find(|about| about["name"] == stream);
        about.cloned().ok_or_else(|| format!("there is no stream `{stream}`"))
    }

    fn fill(&self, bytes: usize, entries: u32) -> Result<(), String> {
        self.runtime.block_on(async {
            let text = Text::new(bytes);
            for stream in [OURS, RUST] {
                self.empty(stream).await?;
            }
            sends(&self.stream, &text, TASKS, entries).await?;
            sends(&self.jetstream, &text, TASKS, entries).await.map(drop)
        })
    }

    fn one_by_one(&self, bytes: usize) -> Result<(), String> {
        let entries = 4_000;
        self.fill(bytes, entries)?;
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.consuming("tidings, cursor", Some(1), entries, |seen| self.we_consume(seen, consume::cursor)),
                self.consuming("ruststream-nats", None, entries, |seen| self.rust_handles(seen, false)),
            ],
        )?;
        print_beside(&format!("nats, consume one by one, {bytes} B"), &rows, &[None]);
        Ok(())
    }

    fn consume(&self, bytes: usize, entries: u32) -> Result<(), String> {
        self.fill(bytes, entries)?;
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.consuming("tidings, worker", Some(IN_FLIGHT), entries, |seen| {
                    self.we_consume(seen, consume::worker)
                }),
                self.consuming("ruststream-nats", None, entries, |seen| self.rust_handles(seen, false)),
                self.consuming("ruststream-nats, in batches", None, entries, |seen| self.rust_handles(seen, true)),
            ],
        )?;
        print_beside(&format!("nats, consume, {bytes} B"), &rows, &[None; 2]);
        Ok(())
    }

    /// A way of consuming a whole stream by a durable that is new, of which all is settled behind. A durable of this
    /// library's has so many deliveries unsettled at most.
    fn consuming<'a, F>(
        &'a self,
        name: &'static str,
        ours: Option<u32>,
        entries: u32,
        round: impl Fn(Arc<Seen>) -> F + 'a,
    ) -> Way<'a>
    where
        F: Future<Output = Result<Instant, String>>,
    {
        let stream = if ours.is_some() { OURS } else { RUST };
        let settled = move || {
            self.runtime.block_on(self.settled(stream));
            Ok(())
        };
        consuming(&self.runtime, name, entries, round).between(move || self.runtime.block_on(self.begin(ours)), settled)
    }

    async fn begin(&self, ours: Option<u32>) -> Result<(), String> {
        if let Some(in_flight) = ours {
            let durable = durable(&self.broker)?;
            durable.delete().await.map_err(shown)?;
            return durable.ensure(DurableSettings::new().in_flight(in_flight)).await.map_err(shown).map(drop);
        }
        let stream = self.rust.jetstream().get_stream(RUST).await.map_err(shown)?;
        // It needn't be there yet; the app makes it.
        let _ = stream.delete_consumer("bench").await;
        Ok(())
    }

    /// Waits for what isn't confirmed, and may still be on its way.
    async fn settled(&self, stream: &str) {
        eventually(format!("all of `{stream}` is settled"), || self.is_settled(stream)).await;
    }

    async fn is_settled(&self, stream: &str) -> Result<(), String> {
        let about = self.about(stream).await?;
        match about["consumer_detail"].as_array().map(Vec::as_slice) {
            Some([durable]) if durable["num_pending"] == 0 && durable["num_ack_pending"] == 0 => Ok(()),
            durables => Err(format!("there is still {durables:?}")),
        }
    }

    /// By a connection of its own, as an app has one.
    async fn we_consume<F>(
        &self,
        seen: Arc<Seen>,
        round: impl FnOnce(Durable<Text, Nats>, Arc<Seen>) -> F,
    ) -> Result<Instant, String>
    where
        F: Future<Output = Result<(), String>>,
    {
        let broker = connect(&self.server)?;
        round(durable(&broker)?, seen).await?;
        let at = Instant::now();
        broker.close(ROUND).await.map_err(shown).map(|()| at)
    }

    /// By an app with one handler. Where it is stopped at once, acknowledgements are lost that it has not sent yet.
    async fn rust_handles(&self, seen: Arc<Seen>, in_batches: bool) -> Result<Instant, String> {
        let broker = NatsBroker::new(self.server.url());
        let app = |handled| {
            RustStream::new(AppInfo::new("bench", "0.1.0"))
                .on_startup(async move |()| Ok::<_, Infallible>(handled))
                .with_broker(broker, |broker| {
                    if in_batches {
                        broker.include(batches.batch(nonzero!(256usize)));
                    } else {
                        broker.include(each);
                    }
                })
        };
        handles(seen, app, self.settled(RUST)).await
    }
}

#[subscriber(JetStreamSubject::new(RUST, RUST).durable("bench"))]
async fn each(text: &Text, context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take([text])
}

#[subscriber(JetStreamSubject::new(RUST, RUST).durable("bench"))]
async fn batches(texts: &[Text], context: &mut Context<'_, (), Handled>) -> HandlerOutcome {
    context.state().take(texts)
}

impl Sender for NatsPublisher {
    async fn send(&self, text: &Text) -> Result<(), String> {
        let payload: BytesMut = bytes::Bytes::from(text.json()).into();
        self.publish(OutgoingMessage::produced(SUBJECT, payload), None).await.map_err(shown)
    }
}

/// Waits until each message was written, by the client below.
#[derive(Clone)]
struct Flushed {
    publisher: NatsPublisher,
    connected: Arc<ConnectedNatsBroker>,
}

impl Sender for Flushed {
    async fn send(&self, text: &Text) -> Result<(), String> {
        Sender::send(&self.publisher, text).await?;
        self.connected.client().flush().await.map_err(shown)
    }
}

impl Sender for JetStreamPublisher {
    async fn send(&self, text: &Text) -> Result<(), String> {
        self.publish(OutgoingMessage::new(RUST, &text.json()), None).await.map_err(shown)
    }
}
