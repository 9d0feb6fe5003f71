use tidings::{Broker, StreamedBy};

pub struct LedgerEntry;

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = <LedgerEntry as StreamedBy<_>>::bind(broker);
}

fn main() {}
