use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(serde::Deserialize)]
pub struct LedgerEntry;

async fn append(stream: &Stream<LedgerEntry, ui_tests::LogOnly>, entry: &LedgerEntry, key: &String) {
    let _ = stream.append_all([(key, entry)]).await;
}

fn main() {}
