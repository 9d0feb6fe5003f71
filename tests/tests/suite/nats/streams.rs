//! Streams on JetStream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::jetstream;
use tidings::{Append, Durability, Start, Storage, Stream, StreamSettings, stream_spec};
use tokio::time::Instant;

use super::*;

mod cases;
mod crashes;
mod refusals;
mod texts;

/// More than a page of any test.
const ALL: usize = 4_096;

#[stream_spec(name = "nats.rows", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    n: u64,
    #[serde(default)]
    filler: String,
}

type Rows = Stream<Row, Nats>;

/// JetStream's name for the stream of rows.
const NAME: &str = "shop_test_stream_nats_rows_v1";
const ADDRESS: &str = "shop.test.stream.nats.rows.v1";

pub(super) fn row(n: u64) -> Row {
    Row { n, filler: String::new() }
}

fn rows(url: impl AsRef<str>) -> Rows {
    rows_with(url, Limits::default())
}

fn rows_with(url: impl AsRef<str>, limits: Limits) -> Rows {
    Row::stream(&broker_of(Nats::new(url).unwrap(), limits)).unwrap()
}

/// The stream, once it can be made: a server that is about to come back may not take it yet.
async fn created(stream: &Rows, settings: StreamSettings) {
    within("the stream is made", async {
        while let Err(failed) = stream.ensure(settings.clone()).await {
            assert!(failed.is_transient(), "{failed}");
        }
    })
    .await;
}

async fn fill(stream: &Rows, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        within("appending", stream.append(&1, &row(n))).await.unwrap();
    }
}

async fn numbers(stream: &Rows, from: impl Into<Start>) -> Vec<u64> {
    let read = within("reading", stream.read(from, ALL, Duration::ZERO)).await.unwrap();
    read.iter().map(|delivery| delivery.value().unwrap().n).collect()
}

/// Another client, and the stream as it sees it.
async fn past(server: &harness::Nats) -> jetstream::Context {
    jetstream::new(other(server).await)
}
