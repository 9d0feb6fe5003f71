use serde::{Deserialize, Serialize};
use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String, requires(ack_groups))]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn bind<B: Log>(broker: &Broker<B>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
