use serde::{Deserialize, Serialize};
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn append(broker: &Broker<ui_tests::LogOnly>, entry: &LedgerEntry) {
    use tidings::prelude::*;
    let _ = entry.append(broker).await;
}

fn main() {}
