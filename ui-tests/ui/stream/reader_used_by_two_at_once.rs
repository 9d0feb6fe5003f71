use tidings::{Reader, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Deserialize)]
pub struct LedgerEntry;

async fn follow(reader: &mut Reader<LedgerEntry, ui_tests::LogOnly>) {
    let first = reader.receive();
    let second = reader.receive();
    let _ = (first.await, second.await);
}

fn main() {}
