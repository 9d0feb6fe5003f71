use tidings::stream_spec;

#[stream_spec(name = "ledger.entries", version = 1)]
#[stream_spec(name = "ledger.others", version = 1)]
pub struct LedgerEntry;

fn main() {}
