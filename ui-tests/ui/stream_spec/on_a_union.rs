use tidings::stream_spec;

#[stream_spec(name = "ledger.entries", version = 1)]
pub union LedgerEntry {
    pub cents: i64,
}

fn main() {}
