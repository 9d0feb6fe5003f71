use tidings::stream_spec;

#[stream_spec(name = "ledger.entries", version = 1, requires(ack_groups), requires(dedup))]
#[derive(serde::Serialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn main() {}
