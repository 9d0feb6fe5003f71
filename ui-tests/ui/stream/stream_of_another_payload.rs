use tidings::{Broker, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

fn takes(_: Stream<LedgerEntry, ui_tests::LogOnly>) {}

#[stream_spec(name = "ledger.closings", version = 1)]
pub struct LedgerClosing;

fn gives(broker: &Broker<ui_tests::LogOnly>) {
    takes(LedgerClosing::stream(broker).unwrap());
}

fn main() {}
