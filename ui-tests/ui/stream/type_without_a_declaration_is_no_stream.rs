use tidings::Broker;

pub struct LedgerEntry;

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
