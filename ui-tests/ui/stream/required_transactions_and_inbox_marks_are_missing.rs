use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, requires(transactions, inbox_marks))]
pub struct LedgerEntry;

fn bind(broker: &Broker<ui_tests::NoUnits>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
