use tidings::backend::Memory;
use tidings::{Cursor, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn take(cursor: &mut Cursor<LedgerEntry, Memory>) {
    let first = cursor.next().await.unwrap();
    let second = cursor.next().await.unwrap();
    let _ = (first.ack().await, second.ack().await);
}

fn main() {}
