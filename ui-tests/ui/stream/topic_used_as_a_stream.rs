use serde::{Deserialize, Serialize};
use tidings::{Broker, stream_spec, topic};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

#[topic(name = "orders.placed", version = 1)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced;

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
    let _ = OrderPlaced::stream(broker);
}

fn main() {}
