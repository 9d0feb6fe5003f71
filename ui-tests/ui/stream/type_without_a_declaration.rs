use tidings::Broker;
use tidings::prelude::*;

#[derive(serde::Serialize)]
pub struct LedgerEntry {
    pub cents: i64,
}

async fn append(broker: &Broker<ui_tests::LogOnly>, entry: &LedgerEntry) {
    let _ = entry.append(broker, &()).await;
}

fn main() {}
