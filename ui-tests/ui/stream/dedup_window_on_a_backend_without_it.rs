use serde::{Deserialize, Serialize};
use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn window(stream: &Stream<LedgerEntry, ui_tests::NoUnits>) {
    let _ = stream.dedup_window().await;
}

fn main() {}
