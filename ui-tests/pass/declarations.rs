//! The declaration is a constant of the type.
#![deny(warnings)]

use tidings::capability::Capability::{self, AckGroups, CommitGroups, Cursors, Dedup, InboxMarks, Tombstones, Transactions};
use tidings::{Kind, StreamSpec, TopicSpec, stream_spec, topic};

#[topic(name = "orders.placed", version = 7)]
pub struct OrderPlaced;

#[stream_spec(name = "ledger.entries", version = 3)]
pub struct LedgerEntry;

#[stream_spec(
    name = "ledger.entries",
    version = 4,
    key = u64,
    requires(dedup, ack_groups, commit_groups, cursors, transactions, tombstones, inbox_marks,),
    address = "legacy/ledger:entries",
    codec = tidings::codec::Json,
    bind = ledger
)]
pub struct Whole;

const NAME: &str = OrderPlaced::DECLARATION.name();
const ADDRESS: Option<&str> = Some("legacy/ledger:entries");
const REQUIRED: [Capability; 7] = [Dedup, AckGroups, CommitGroups, Cursors, Transactions, Tombstones, InboxMarks];
const VERSION: u32 = OrderPlaced::DECLARATION.version();

fn main() {
    assert_eq!((NAME, VERSION), ("orders.placed", 7));
    assert_eq!(LedgerEntry::DECLARATION.kind(), Kind::Stream);
    assert_eq!((LedgerEntry::DECLARATION.to_string().as_str(), LedgerEntry::ADDRESS), ("ledger.entries.v3", None));
    assert_eq!(LedgerEntry::REQUIRES, []);
    assert_eq!((Whole::DECLARATION.to_string().as_str(), Whole::ADDRESS), ("ledger.entries.v4", ADDRESS));
    // In the order in which they were written.
    assert_eq!(Whole::REQUIRES, REQUIRED);
}
