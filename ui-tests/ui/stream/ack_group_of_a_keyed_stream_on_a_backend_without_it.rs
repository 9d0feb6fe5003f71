use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key(account))]
pub struct LedgerEntry {
    pub account: String,
}

fn group(broker: &Broker<ui_tests::LogOnly>) {
    let stream = LedgerEntry::stream(broker).unwrap();
    let _ = stream.ack_group("billing");
}

fn main() {}
