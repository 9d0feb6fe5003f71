//! Streams on real servers: what is particular to Redis. The conformance suite has the rest.

use std::time::SystemTime;

use tidings::{
    AckGroup, Append, Delivery, Durability, Position, Positions, Start, Stream, StreamSettings, stream_spec,
};

use super::*;

mod appends;
mod cases;
mod cluster;
mod rights;
mod specifics;

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

fn log(stream: &Stream<Entry, Redis>) -> String {
    format!("{{{}.p0}}:log", stream.address())
}

/// A position as the server writes it.
fn id(position: Position) -> String {
    format!("{}-{}", position.offset() >> 64, position.offset() & u128::from(u64::MAX))
}

/// Waits until so many of the server's clients wait for a stream.
async fn blocked(server: &Server, count: usize) {
    tidings_tests::harness::eventually(format!("{count} clients wait"), || async {
        let info = server.command(&["INFO", "clients"]).await.text();
        let blocked = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).map(str::trim);
        if blocked == Some(&*count.to_string()) { Ok(()) } else { Err(format!("{blocked:?}")) }
    })
    .await;
}
