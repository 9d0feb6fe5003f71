use tidings::{KeyedStream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key(account))]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry {
    pub account: String,
}

async fn append(stream: &KeyedStream<LedgerEntry, ui_tests::LogOnly>, entry: &LedgerEntry, key: &LedgerEntryStreamKey) {
    let _ = stream.append(key, entry).await;
}

fn main() {}
