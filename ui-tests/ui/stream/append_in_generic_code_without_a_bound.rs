use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String, requires(dedup))]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn append<B: Log>(broker: &Broker<B>, entry: &LedgerEntry, key: &String) {
    use tidings::prelude::*;
    let _ = entry.append(broker, key).await;
}

fn main() {}
