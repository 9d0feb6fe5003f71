use serde::{Deserialize, Serialize};
use tidings::{Append, KeyedStream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key(account))]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn append(stream: &KeyedStream<LedgerEntry, ui_tests::LogOnly>, entry: &LedgerEntry, key: &LedgerEntryStreamKey) {
    let _ = stream.append_with(Append::new(key, entry)).await;
}

fn main() {}
