use std::time::Duration;

use tidings::{Consumer, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Serialize)]
pub struct LedgerEntry;

async fn consume(consumer: &mut Consumer<LedgerEntry, ui_tests::NoUnits>) {
    let _ = consumer.read(1, Duration::ZERO).await;
}

fn main() {}
