use tidings::backend::Redis;
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, requires(tombstones))]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn bind(broker: &Broker<Redis>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
