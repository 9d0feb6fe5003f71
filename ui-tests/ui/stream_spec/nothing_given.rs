use tidings::stream_spec;

#[stream_spec()]
#[derive(serde::Serialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn main() {}
