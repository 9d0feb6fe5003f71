//! NATS beside `async-nats` used directly, in turns: `cargo bench -p tidings-tests --bench nats [core|stream|durable]`.
//!
//! `core` publishes and receives without JetStream, `stream` appends to it, `durable` consumes with each settlement
//! confirmed. It fails when a message was lost or came twice or a round timed out. A target that is missed is said, not
//! failed. See docs/benchmarks.md.

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

use tidings::backend::Nats;
use tidings::{
    Broker, Config, Durable, DurableOwner, DurableSettings, Limits, Namespace, Stream, StreamSettings, Topic,
};
use tidings_tests::harness::{Nats as Server, NatsKind, NatsOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::consume::{cursor, worker};
use crate::measure::{ROUND, Way, print, print_beside, print_each, take_turns};
use crate::raw::Raw;
use crate::text::{FIRST, Seen, Text};

const RECEIVED: u32 = 50_000;
/// By a cursor, one at a time, and by a worker.
const ONE_BY_ONE: u32 = 4_000;
const WORKED: u32 = 40_000;
/// Deliveries that a worker has at once, and its twin.
pub(crate) const IN_FLIGHT: u32 = 512;

fn main() -> ExitCode {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime = Runtime::new().expect("a runtime starts");
    let run = || {
        let server = runtime.block_on(Server::start(NatsKind::Nats215, NatsOptions::default()));
        let bench = Bench { runtime: &runtime, url: server.url(), server: server.pid() };
        for bytes in [128, 1_024] {
            if is_wanted("core") {
                bench.publish(bytes)?;
                bench.receive(bytes)?;
            }
            if is_wanted("stream") {
                bench.append(bytes)?;
            }
            if is_wanted("durable") {
                bench.one_by_one(bytes)?;
                bench.worker(bytes)?;
            }
        }
        Ok::<_, String>(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("nats: {problem}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct Bench<'a> {
    runtime: &'a Runtime,
    url: String,
    server: u32,
}

impl Bench<'_> {
    fn in_time<R>(&self, work: impl Future<Output = Result<R, String>>) -> Result<R, String> {
        self.runtime
            .block_on(async { timeout(ROUND, work).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
    }

    fn broker(&self) -> Result<Broker<Nats>, String> {
        let namespace = Namespace::new("bench", "nats").map_err(shown)?;
        // A round's messages fit, so that none depends on how fast the receiver is.
        let limits = Limits::default().buffer_messages(65_536).buffer_bytes(64 << 20);
        Broker::new(Nats::new(&self.url).map_err(shown)?, Config::new(namespace).limits(limits)).map_err(shown)
    }

    fn raw(&self) -> Result<Raw, String> {
        self.in_time(Raw::connect(&self.url))
    }

    fn close(&self, broker: &Broker<Nats>) -> Result<(), String> {
        self.in_time(async { broker.close(ROUND).await.map_err(shown) })
    }

    fn publish(&self, bytes: usize) -> Result<(), String> {
        let (broker, raw, text) = (self.broker()?, self.raw()?, Text::new(bytes));
        let topic = Text::topic(&broker).map_err(shown)?;
        for (tasks, messages) in [(1, 4_000), (256, 61_440)] {
            let rows = take_turns(
                messages,
                Some(self.server),
                vec![
                    Way::new("tidings", || self.in_time(publishes(&topic, &text, tasks, messages))),
                    Way::new("async-nats, confirmed by an echo", || {
                        self.in_time(raw.publishes_confirmed(&text, tasks, messages))
                    }),
                    Way::new("async-nats, flush, not confirmed", || {
                        self.in_time(raw.publishes(&text, tasks, messages))
                    }),
                ],
            )?;
            // What isn't confirmed is something else, so there is no aim beside it.
            print_beside(&format!("core, publish, {bytes} B, {tasks} at once"), &rows, &[Some(0.95), None]);
        }
        self.close(&broker)
    }

    fn receive(&self, bytes: usize) -> Result<(), String> {
        let (broker, raw, text) = (self.broker()?, self.raw()?, Text::new(bytes));
        let topic = Text::topic(&broker).map_err(shown)?;
        let rows = take_turns(
            RECEIVED,
            Some(self.server),
            vec![
                Way::new("tidings", || self.in_time(receive(&topic, &raw, &text))),
                Way::new("async-nats, a subscriber", || self.in_time(raw.receive(&text, RECEIVED))),
            ],
        )?;
        print(&format!("core, receive, {bytes} B"), &rows, 0.95);
        self.close(&broker)
    }

    /// Makes the stream anew, so that nothing is in it.
    fn renew(&self) -> Result<(), String> {
        self.in_time(async {
            let broker = self.broker()?;
            let stream = Text::stream(&broker).map_err(shown)?;
            stream.delete().await.map_err(shown)?;
            stream.ensure(StreamSettings::new()).await.map_err(shown)?;
            broker.close(ROUND).await.map_err(shown)
        })
    }

    fn append(&self, bytes: usize) -> Result<(), String> {
        self.renew()?;
        let (broker, raw, text) = (self.broker()?, self.raw()?, Text::new(bytes));
        let stream = Text::stream(&broker).map_err(shown)?;
        for (tasks, entries) in [(1, 2_000), (256, 40_960)] {
            let rows = take_turns(
                entries,
                Some(self.server),
                vec![
                    Way::new("tidings", || self.in_time(appends(&stream, &text, tasks, entries))),
                    Way::new("async-nats, publish and its ack", || self.in_time(raw.appends(&text, tasks, entries))),
                ],
            )?;
            print(&format!("stream, append, {bytes} B, {tasks} at once"), &rows, 0.95);
        }
        self.close(&broker)
    }

    /// Fills the stream, and lets a durable of the library and one of the twin hand it out.
    fn consume(
        &self,
        name: &str,
        bytes: usize,
        entries: u32,
        in_flight: u32,
        ours: (&'static str, Ours),
        twins: &[(&'static str, Twin)],
    ) -> Result<(), String> {
        self.renew()?;
        let (broker, raw, text) = (self.broker()?, self.raw()?, Text::new(bytes));
        let stream = Text::stream(&broker).map_err(shown)?;
        self.in_time(raw.fill(&text, entries))?;
        let owner = DurableOwner::module("bench").map_err(shown)?;
        let durable = stream.durable(&owner).map_err(shown)?;
        let settings = DurableSettings::new().in_flight(in_flight);
        let (before, after) = (durable.clone(), durable.clone());
        let (title, round) = ours;
        let mut ways = vec![Way::new(title, || self.measured(entries, |seen| round(durable.clone(), seen))).between(
            || {
                self.in_time(async {
                    before.delete().await.map_err(shown)?;
                    before.ensure(settings.clone()).await.map_err(shown).map(drop)
                })
            },
            || {
                self.in_time(async {
                    let info = after.info().await.map_err(shown)?;
                    let left = info.waiting + info.in_flight;
                    if left == 0 { Ok(()) } else { Err(format!("{left} deliveries aren't settled")) }
                })
            },
        )];
        for &(title, twin) in twins {
            let raw = &raw;
            let round = move || self.measured(entries, |seen| raw.consume(seen, twin));
            ways.push(
                Way::new(title, round).between(
                    move || self.in_time(raw.renew_consumer(in_flight)),
                    move || self.in_time(raw.is_settled()),
                ),
            );
        }
        let rows = take_turns(entries, Some(self.server), ways)?;
        print_each(&format!("durable, {name}, {bytes} B"), &rows, &[Some(0.95)]);
        self.close(&broker)
    }

    fn one_by_one(&self, bytes: usize) -> Result<(), String> {
        let ours: (_, Ours) = ("a cursor", |durable, seen| Box::pin(cursor(durable, seen)));
        let twins = [("async-nats, one at a time", Twin::One)];
        self.consume("one in flight", bytes, ONE_BY_ONE, 1, ours, &twins)
    }

    fn worker(&self, bytes: usize) -> Result<(), String> {
        let ours: (_, Ours) = ("a worker", |durable, seen| Box::pin(worker(durable, seen)));
        let twins =
            [("async-nats, a page and its acks", Twin::Pages), ("async-nats, acks side by side", Twin::SideBySide)];
        self.consume(&format!("{IN_FLIGHT} in flight"), bytes, WORKED, IN_FLIGHT, ours, &twins)
    }

    fn measured<F: Future<Output = Result<(), String>>>(
        &self,
        entries: u32,
        round: impl FnOnce(Arc<Seen>) -> F,
    ) -> Result<Duration, String> {
        let seen = Arc::new(Seen::new(entries));
        let start = Instant::now();
        self.in_time(round(seen.clone()))?;
        let took = start.elapsed();
        seen.is_complete().map(|()| took)
    }
}

/// How the twin consumes.
#[derive(Clone, Copy)]
pub(crate) enum Twin {
    One,
    Pages,
    SideBySide,
}

type Ours = fn(Durable<Text, Nats>, Arc<Seen>) -> Round;
type Round = std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Waits for all tasks, each of which has done its share.
pub(crate) async fn all_done(mut running: JoinSet<Result<(), String>>, start: Instant) -> Result<Duration, String> {
    while let Some(done) = running.join_next().await {
        done.map_err(shown)??;
    }
    Ok(start.elapsed())
}

/// The numbers of a task's entries.
pub(crate) fn share(task: u32, tasks: u32, entries: u32) -> std::ops::Range<u32> {
    let each = entries / tasks;
    FIRST + task * each..FIRST + (task + 1) * each
}

async fn publishes(topic: &Topic<Text, Nats>, text: &Text, tasks: u32, messages: u32) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (topic, text) = (topic.clone(), text.clone());
        running.spawn(async move {
            for _ in share(task, tasks, messages) {
                topic.publish(&(), &text).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

pub(crate) fn same(received: &Text, number: u32) -> Result<(), String> {
    if received.number == number { Ok(()) } else { Err(format!("message {number} was lost")) }
}

async fn receive(topic: &Topic<Text, Nats>, raw: &Raw, text: &Text) -> Result<Duration, String> {
    let mut subscription = topic.subscribe(&()).await.map_err(shown)?;
    let start = Instant::now();
    let feed = raw.feed(text, RECEIVED);
    for number in FIRST..FIRST + RECEIVED {
        same(&subscription.receive().await.map_err(shown)?, number)?;
    }
    let took = start.elapsed();
    feed.await.map_err(shown)??;
    subscription.close().await;
    Ok(took)
}

async fn appends(stream: &Stream<Text, Nats>, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
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
