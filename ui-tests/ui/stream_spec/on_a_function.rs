use tidings::stream_spec;

#[stream_spec(name = "ledger.entries", version = 1)]
pub fn append() {}

fn main() {}
