use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

fn group<B: Log>(broker: &Broker<B>) {
    let stream = LedgerEntry::stream(broker).unwrap();
    let _ = stream.ack_group("billing");
}

fn main() {}
