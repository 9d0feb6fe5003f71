use std::time::Duration;

use serde::Serialize;
use tidings::{Start, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn read(stream: &Stream<LedgerEntry, ui_tests::LogOnly>) {
    let _ = stream.read(Start::Earliest, 1, Duration::ZERO).await;
}

fn main() {}
