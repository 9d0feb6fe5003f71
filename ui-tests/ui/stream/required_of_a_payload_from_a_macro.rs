use tidings::{Broker, stream_spec};

macro_rules! entry {
    ($ident:ident, $capability:ident) => {
        #[stream_spec(name = "ledger.entries", version = 1, requires($capability))]
        pub struct $ident;
    };
}

entry!(LedgerEntry, ack_groups);

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
