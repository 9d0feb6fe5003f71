use serde::{Deserialize, Serialize};
use tidings::{Broker, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn takes(_: Stream<LedgerEntry, ui_tests::LogOnly>) {}

#[stream_spec(name = "ledger.closings", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerClosing;

fn gives(broker: &Broker<ui_tests::LogOnly>) {
    takes(LedgerClosing::stream(broker).unwrap());
}

fn main() {}
