use serde::{Deserialize, Serialize};
use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn group<B: Log>(broker: &Broker<B>) {
    let stream = LedgerEntry::stream(broker).unwrap();
    let _ = stream.ack_group("billing");
}

fn main() {}
