//! Streams on real servers: what is particular to Redis. The conformance suite has the rest.

use std::time::SystemTime;

use tidings::{Append, Delivery, Durability, Position, Positions, Start, Stream, StreamSettings, stream_spec};

use super::*;

mod appends;
mod cluster;

/// Longer than anything takes that is waited for.
const WAIT: Duration = Duration::from_secs(10);
/// Shorter than a test should be held up by what doesn't come.
const SHORT: Duration = Duration::from_millis(100);

#[stream_spec(name = "redis.entries", version = 1, key = String, requires(ack_groups, dedup))]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Entry {
    number: u64,
}

fn entry(number: u64) -> Entry {
    Entry { number }
}

/// A server, a broker and a stream that was made with these settings.
async fn made(settings: StreamSettings) -> (Server, Broker<Redis>, Stream<Entry, Redis>) {
    let server = server().await;
    let broker = broker(server.url());
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(settings).await.unwrap();
    (server, broker, stream)
}

async fn append(stream: &Stream<Entry, Redis>, number: u64) -> Position {
    let receipt = within("an append returns", stream.append(&format!("k{number}"), &entry(number))).await.unwrap();
    receipt.position.expect("Redis tells the position")
}

fn numbers<'a>(deliveries: impl IntoIterator<Item = &'a Delivery<Entry>>) -> Vec<u64> {
    deliveries.into_iter().map(|delivery| delivery.value().unwrap().number).collect()
}

#[allow(dead_code)]
fn log(stream: &Stream<Entry, Redis>) -> String {
    format!("{{{}.p0}}:log", stream.address())
}
