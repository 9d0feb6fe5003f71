use tidings::stream_spec;

#[stream_spec(name = "ledger.entries", version = 1)]
pub struct LedgerEntry;

impl LedgerEntry {
    pub fn stream() {}
}

fn main() {}
