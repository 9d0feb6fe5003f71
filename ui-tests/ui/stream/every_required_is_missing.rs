use tidings::{Broker, stream_spec};

#[stream_spec(
    name = "ledger.entries",
    version = 1,
    requires(ack_groups, commit_groups, cursors, transactions, tombstones, inbox_marks, dedup)
)]
pub struct LedgerEntry;

fn bind(broker: &Broker<ui_tests::LogOnly>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
