use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

fn group(broker: &Broker<ui_tests::LogOnly>) {
    let stream = LedgerEntry::stream(broker).unwrap();
    let _ = stream.ack_group("billing");
}

fn main() {}
