use tidings::Stream;

pub struct LedgerEntry;

pub struct Service {
    pub ledger: Stream<LedgerEntry, ui_tests::LogOnly>,
}

fn main() {}
