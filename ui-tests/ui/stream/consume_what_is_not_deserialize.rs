use std::time::Duration;

use serde::Serialize;
use tidings::{Consumer, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn consume(consumer: &mut Consumer<LedgerEntry, ui_tests::NoUnits>) {
    let _ = consumer.read(1, Duration::ZERO).await;
}

fn main() {}
