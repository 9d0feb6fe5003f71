use tidings::backend::Memory;
use tidings::{Broker, Consumer, Position, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn record(broker: &Broker<Memory>, consumer: &Consumer<LedgerEntry, Memory>, position: Position) {
    let _ = broker.unit().commit(consumer, [position]);
}

fn main() {}
