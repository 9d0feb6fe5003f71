use serde::{Deserialize, Serialize};
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key(account))]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn group(broker: &Broker<ui_tests::LogOnly>) {
    let stream = LedgerEntry::stream(broker).unwrap();
    let _ = stream.ack_group("billing");
}

fn main() {}
