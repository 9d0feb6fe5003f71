use tidings::{Broker, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, requires(ack_groups))]
pub struct LedgerEntry;

fn bind<B: Log>(broker: &Broker<B>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
