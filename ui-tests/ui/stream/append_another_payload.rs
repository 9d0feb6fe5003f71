use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn append(stream: &Stream<LedgerEntry, ui_tests::LogOnly>, key: &String) {
    let _ = stream.append(key, &"text").await;
}

fn main() {}
