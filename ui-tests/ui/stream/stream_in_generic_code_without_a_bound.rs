use tidings::{Broker, capability::Backend, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

fn bind<B: Backend>(broker: &Broker<B>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
