//! Consumers on the server, by which reads go on, and those that are kept for the next read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::api;
use super::super::client::{NatsClient, unique};
use super::super::fault::Fault;
use super::super::pipeline::Listening;
use super::super::wire::Message;
use super::StreamState;
use crate::broker::lock;
use crate::error::{ErrorKind, Outcome};

/// The server forgets a consumer that nobody asks for so long, and a client sooner.
const SERVER_KEEPS: Duration = Duration::from_mins(1);
const KEPT: Duration = Duration::from_secs(30);
const MOST_KEPT: usize = 16;

/// A client's consumers.
#[derive(Default)]
pub(in super::super) struct Reading {
    running: AtomicUsize,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    consumer: Consumer,
    since: Instant,
}

/// A consumer of the server's, and the messages that it sends.
pub(super) struct Consumer {
    stream: String,
    /// The sequence of the last message before those that it sends.
    pub(super) before: u64,
    /// To ask for more.
    pub(super) next: String,
    /// To let it go.
    gone: String,
    pub(super) inbox: Listening,
    /// Nothing was left when the last message came.
    pub(super) at_end: bool,
}

#[derive(Deserialize)]
struct Created {
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    stream_seq: u64,
}

impl Consumer {
    /// Makes one that nobody else has and that remembers nothing.
    pub(super) async fn create(client: &NatsClient, state: &StreamState, policy: Value) -> Result<Self, Fault> {
        let stream = &*state.name;
        let name = format!("tidings_{:016x}{:016x}", unique(&client.host), unique(&client.host));
        let mut config = json!({
            "name": name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": u64::try_from(SERVER_KEEPS.as_nanos()).unwrap_or(u64::MAX),
            "num_replicas": 1,
            "mem_storage": true,
        });
        if let (Value::Object(config), Value::Object(policy)) = (&mut config, policy) {
            config.extend(policy);
        }
        let body = json!({ "stream_name": stream, "config": config, "action": "create" });
        // There before it is asked for, so that it goes whenever this is dropped.
        let mut consumer = Self {
            stream: stream.to_owned(),
            before: 0,
            next: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"),
            gone: format!("$JS.API.CONSUMER.DELETE.{stream}.{name}"),
            inbox: client.streams.listen()?,
            at_end: false,
        };
        let creating = format!("CONSUMER.CREATE.{stream}.{name}");
        let created: Created = api::call(client, client.deadline(), &creating, &body).await?;
        consumer.before = created.delivered.stream_seq;
        Ok(consumer)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.inbox.post(&self.gone);
    }
}

/// One of the reads at once.
pub(super) struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reading {
    pub(super) fn place(&self, most: usize) -> Result<Place<'_>, Fault> {
        let place = Place(&self.running);
        if self.running.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(place);
        }
        let text = format!("{most} reads are under way, as many as `subscriptions`; raise it, or read less at once");
        Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text))
    }

    /// Takes the consumer that goes on behind this sequence.
    pub(super) fn take(&self, stream: &str, before: u64) -> Option<Consumer> {
        let mut kept = lock(&self.kept);
        kept.retain(|kept| kept.since.elapsed() < KEPT && kept.consumer.inbox.is_open());
        let fits = |kept: &Kept| kept.consumer.before == before && kept.consumer.stream == stream;
        let place = kept.iter().position(fits)?;
        Some(kept.swap_remove(place).consumer)
    }

    pub(super) fn keep(&self, consumer: Consumer) {
        let mut kept = lock(&self.kept);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push(Kept { consumer, since: Instant::now() });
    }

    pub(in super::super) fn close(&self) {
        lock(&self.kept).clear();
    }
}

/// A message's sequence in its stream, and how many are left behind it:
/// `$JS.ACK.{stream}.{consumer}.{delivered}.{sequence}.{of the consumer}.{time}.{left}`, with a domain and an account
/// behind `ACK` where the server has domains, and perhaps more at the end then.
pub(super) fn place(message: &Message) -> Option<(u64, u64)> {
    let tokens: Vec<&[u8]> = message.reply.split(|byte| *byte == b'.').collect();
    let first = if tokens.len() == 9 { 5 } else { 7 };
    let number = |place: usize| std::str::from_utf8(tokens.get(place)?).ok()?.parse().ok();
    (tokens.len() >= 9).then(|| Some((number(first)?, number(first + 3)?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_it_stands_with_and_without_a_domain() {
        for (reply, wanted) in [
            ("$JS.ACK.s.c.1.17.3.1700000000000000000.5", Some((17, 5))),
            ("$JS.ACK.d.h.s.c.1.17.3.1700000000000000000.5", Some((17, 5))),
            ("$JS.ACK.d.h.s.c.1.17.3.1700000000000000000.5.token", Some((17, 5))),
            ("$JS.ACK.s.c.1.x.3.1700000000000000000.5", None),
            ("$JS.ACK.s.c.1", None),
            ("", None),
        ] {
            let message = Message { reply: reply.as_bytes().into(), ..Message::default() };
            assert_eq!(place(&message), wanted, "{reply}");
        }
    }
}
