use std::time::Duration;

use tidings::{Start, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Serialize)]
pub struct LedgerEntry;

async fn read(stream: &Stream<LedgerEntry, ui_tests::LogOnly>) {
    let _ = stream.read(Start::Earliest, 1, Duration::ZERO).await;
}

fn main() {}
