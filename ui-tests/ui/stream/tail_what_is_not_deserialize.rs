use tidings::{Start, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Serialize)]
pub struct LedgerEntry;

async fn tail(stream: &Stream<LedgerEntry, ui_tests::LogOnly>) {
    let _ = stream.tail(Start::Earliest).receive().await;
}

fn main() {}
