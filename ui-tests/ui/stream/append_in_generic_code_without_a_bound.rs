use serde::{Deserialize, Serialize};
use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String, requires(dedup))]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn append<B: Log>(broker: &Broker<B>, entry: &LedgerEntry, key: &String) {
    use tidings::prelude::*;
    let _ = entry.append(broker, key).await;
}

fn main() {}
