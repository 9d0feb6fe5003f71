use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

fn bind(broker: &Broker<ui_tests::NoPatterns>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
