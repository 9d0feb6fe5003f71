use serde::Deserialize;
use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn append(stream: &Stream<LedgerEntry, ui_tests::LogOnly>, entry: &LedgerEntry, key: &String) {
    let _ = stream.append(key, entry).await;
}

fn main() {}
