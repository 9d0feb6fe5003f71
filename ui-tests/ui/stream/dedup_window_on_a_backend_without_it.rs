use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn window(stream: &Stream<LedgerEntry, ui_tests::NoUnits>) {
    let _ = stream.dedup_window().await;
}

fn main() {}
