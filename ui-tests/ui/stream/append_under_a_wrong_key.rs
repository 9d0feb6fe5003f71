use serde::{Deserialize, Serialize};
use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn append(stream: &Stream<LedgerEntry, ui_tests::LogOnly>, entry: &LedgerEntry) {
    let _ = stream.append(&5_u64, entry).await;
}

fn main() {}
