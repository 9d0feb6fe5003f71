use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::{Consumer, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn consume(consumer: &mut Consumer<LedgerEntry, ui_tests::NoUnits>) {
    let first = consumer.read(1, Duration::ZERO);
    let second = consumer.read(1, Duration::ZERO);
    let _ = (first.await, second.await);
}

fn main() {}
