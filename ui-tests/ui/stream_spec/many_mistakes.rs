use tidings::stream_spec;

#[stream_spec(
    nmae = "Ledger_Entries",
    version = 0,
    key(acount, cents, cents),
    requires(ack_group, dedup, dedup, log, "cursors"),
    address = "{legacy} ledger",
    group = "billing",
    codec,
)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn main() {}
