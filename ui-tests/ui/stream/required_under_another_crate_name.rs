extern crate tidings as bus;

#[bus::stream_spec(name = "ledger.entries", version = 1, requires(ack_groups), crate = ::bus)]
pub struct LedgerEntry;

fn bind(broker: &bus::Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
