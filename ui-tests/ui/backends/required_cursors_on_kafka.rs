use tidings::backend::Kafka;
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, requires(cursors))]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn bind(broker: &Broker<Kafka>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
