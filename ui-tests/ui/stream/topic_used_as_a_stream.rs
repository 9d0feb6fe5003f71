use tidings::{Broker, stream_spec, topic};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

#[topic(name = "orders.placed", version = 1)]
pub struct OrderPlaced;

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
    let _ = OrderPlaced::stream(broker);
}

fn main() {}
