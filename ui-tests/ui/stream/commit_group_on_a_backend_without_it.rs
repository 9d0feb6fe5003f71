use tidings::{Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn share(ledger: &Stream<LedgerEntry, ui_tests::LogOnly>) {
    let _ = ledger.commit_group("billing");
}

fn main() {}
