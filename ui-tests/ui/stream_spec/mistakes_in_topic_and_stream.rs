use tidings::{stream_spec, topic};

#[topic(name = "Ledger", version = 1)]
#[stream_spec(name = "ledger.entries", version = 0)]
pub struct LedgerEntry;

fn main() {}
