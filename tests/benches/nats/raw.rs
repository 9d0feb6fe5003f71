//! The twin: `async-nats` as its documentation shows.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{self, Context, Message};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::task::{JoinHandle, JoinSet};

use crate::measure::ROUND;
use crate::text::{Seen, Text};
use crate::{IN_FLIGHT, Twin, all_done, same, share, shown};

/// The subjects of topic and stream under the bench's namespace, and the stream's name.
const TOPIC: &str = "bench.nats.topic.bench.texts.v1";
const SUBJECT: &str = "bench.nats.stream.bench.texts.v1";
const STREAM: &str = "bench_nats_stream_bench_texts_v1";
const CONSUMER: &str = "raw";

pub(crate) struct Raw {
    client: Client,
    jetstream: Context,
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Result<Self, String> {
        let options = async_nats::ConnectOptions::new().subscription_capacity(65_536);
        let client = options.connect(url).await.map_err(shown)?;
        Ok(Self { jetstream: jetstream::new(client.clone()), client })
    }

    /// Publishes and flushes. The client's `flush` returns when the socket has taken the bytes, before the server has.
    pub(crate) async fn publishes(&self, text: &Text, tasks: u32, messages: u32) -> Result<Duration, String> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (client, text) = (self.client.clone(), text.clone());
            running.spawn(async move {
                for _ in share(task, tasks, messages) {
                    client.publish(TOPIC, text.json().into()).await.map_err(shown)?;
                    client.flush().await.map_err(shown)?;
                }
                Ok(())
            });
        }
        all_done(running, start).await
    }

    /// Publishes, and waits for an empty message of its own behind, by which the server has taken both: the client has no
    /// other round trip to offer.
    pub(crate) async fn publishes_confirmed(&self, text: &Text, tasks: u32, messages: u32) -> Result<Duration, String> {
        let mut echoes = Vec::new();
        for _ in 0..tasks {
            let inbox = self.client.new_inbox();
            echoes.push((self.client.subscribe(inbox.clone()).await.map_err(shown)?, inbox));
        }
        self.client.flush().await.map_err(shown)?;
        let start = Instant::now();
        let mut running = JoinSet::new();
        for (task, (mut echo, inbox)) in (0..).zip(echoes) {
            let (client, text) = (self.client.clone(), text.clone());
            running.spawn(async move {
                for _ in share(task, tasks, messages) {
                    client.publish(TOPIC, text.json().into()).await.map_err(shown)?;
                    client.publish(inbox.clone(), Bytes::new()).await.map_err(shown)?;
                    echo.next().await.ok_or("the subscription ended")?;
                }
                Ok(())
            });
        }
        all_done(running, start).await
    }

    /// Publishes what a round receives; the same for every way of receiving.
    pub(crate) fn feed(&self, text: &Text, messages: u32) -> JoinHandle<Result<(), String>> {
        let (client, mut text) = (self.client.clone(), text.clone());
        tokio::spawn(async move {
            for number in share(0, 1, messages) {
                text.number = number;
                client.publish(TOPIC, text.json().into()).await.map_err(shown)?;
            }
            client.flush().await.map_err(shown)
        })
    }

    pub(crate) async fn receive(&self, text: &Text, messages: u32) -> Result<Duration, String> {
        let mut subscriber = self.client.subscribe(TOPIC).await.map_err(shown)?;
        self.client.flush().await.map_err(shown)?;
        let start = Instant::now();
        let feed = self.feed(text, messages);
        for number in share(0, 1, messages) {
            let message = subscriber.next().await.ok_or("the subscription ended")?;
            same(&serde_json::from_slice(&message.payload).map_err(shown)?, number)?;
        }
        let took = start.elapsed();
        feed.await.map_err(shown)??;
        subscriber.unsubscribe().await.map_err(shown)?;
        Ok(took)
    }

    pub(crate) async fn appends(&self, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (jetstream, mut text) = (self.jetstream.clone(), text.clone());
            running.spawn(async move {
                for number in share(task, tasks, entries) {
                    text.number = number;
                    append(&jetstream, &text).await?;
                }
                Ok(())
            });
        }
        all_done(running, start).await
    }

    pub(crate) async fn fill(&self, text: &Text, entries: u32) -> Result<(), String> {
        self.appends(text, 250, entries).await.map(drop)
    }

    async fn consumer(&self) -> Result<PullConsumer, String> {
        let stream = self.jetstream.get_stream(STREAM).await.map_err(shown)?;
        stream.get_consumer(CONSUMER).await.map_err(shown)
    }

    pub(crate) async fn renew_consumer(&self, in_flight: u32) -> Result<(), String> {
        let stream = self.jetstream.get_stream(STREAM).await.map_err(shown)?;
        // It needn't be there yet.
        let _ = stream.delete_consumer(CONSUMER).await;
        let config = Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_ack_pending: i64::from(in_flight),
            ..Config::default()
        };
        stream.create_consumer(config).await.map_err(shown).map(drop)
    }

    pub(crate) async fn is_settled(&self) -> Result<(), String> {
        let info = self.consumer().await?.info().await.map_err(shown)?.clone();
        let left = info.num_pending + info.num_ack_pending as u64;
        if left == 0 { Ok(()) } else { Err(format!("{left} deliveries aren't settled")) }
    }

    pub(crate) async fn consume(&self, seen: Arc<Seen>, twin: Twin) -> Result<(), String> {
        let consumer = self.consumer().await?;
        let mark = |payload: &Bytes| seen.mark(&serde_json::from_slice(payload).map_err(shown)?);
        match twin {
            Twin::One => {
                while seen.count() < seen.all() {
                    let mut one = consumer.batch().max_messages(1).expires(ROUND).messages().await.map_err(shown)?;
                    let message = one.next().await.ok_or("the messages ended")?.map_err(shown)?;
                    mark(&message.payload)?;
                    message.double_ack().await.map_err(shown)?;
                }
            }
            Twin::Pages => {
                while seen.count() < seen.all() {
                    let page = consumer.fetch().max_messages(IN_FLIGHT as usize).messages().await.map_err(shown)?;
                    let page: Vec<_> = page.try_collect().await.map_err(shown)?;
                    for message in &page {
                        mark(&message.payload)?;
                    }
                    let acks = page.iter().map(Message::double_ack);
                    futures_util::future::try_join_all(acks).await.map_err(shown)?;
                }
            }
            Twin::SideBySide => {
                let page = IN_FLIGHT as usize;
                let messages = consumer.stream().max_messages_per_batch(page).messages().await.map_err(shown)?;
                let messages = messages.map_err(shown).take(seen.all() as usize);
                messages
                    .try_for_each_concurrent(page, |message| {
                        let marked = mark(&message.payload);
                        async move {
                            marked?;
                            message.double_ack().await.map_err(shown)
                        }
                    })
                    .await?;
            }
        }
        Ok(())
    }
}

async fn append(jetstream: &Context, text: &Text) -> Result<(), String> {
    // As many of the same length as the library's records have.
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "01993f5e-7b1c-7000-8000-000000000000"),
        ("ce-source", "/bench/nats"),
        ("ce-type", "bench.texts.v1"),
        ("ce-time", "2026-11-30T00:00:00.000Z"),
        ("Nats-Expected-Stream", STREAM),
    ] {
        headers.insert(name, value);
    }
    let published = jetstream.publish_with_headers(SUBJECT, headers, text.json().into()).await.map_err(shown)?;
    tokio::time::timeout(ROUND, published.into_future()).await.map_err(shown)?.map_err(shown).map(drop)
}
