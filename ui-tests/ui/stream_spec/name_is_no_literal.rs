use tidings::stream_spec;

#[stream_spec(name = LEDGER, version = 1)]
#[derive(serde::Serialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn main() {}
