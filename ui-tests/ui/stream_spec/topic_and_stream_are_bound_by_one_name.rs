use tidings::{stream_spec, topic};

#[topic(name = "ledger.entries", version = 1, bind = bound)]
#[stream_spec(name = "ledger.entries", version = 1, bind = bound)]
pub struct LedgerEntry;

fn main() {}
