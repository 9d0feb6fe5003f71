use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Deserialize)]
pub struct LedgerEntry;

async fn append(broker: &Broker<ui_tests::LogOnly>, entry: &LedgerEntry, key: &String) {
    use tidings::prelude::*;
    let _ = entry.append(broker, key).await;
}

fn main() {}
