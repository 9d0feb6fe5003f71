use std::time::Duration;

use tidings::backend::Memory;
use tidings::{Cursor, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn take(cursor: &mut Cursor<LedgerEntry, Memory>) {
    let next = cursor.next().await.unwrap();
    let _ = next.nak(Duration::ZERO).await;
    let _ = next.ack().await;
}

fn main() {}
