#![deny(unused_must_use)]

use tidings::backend::Memory;
use tidings::{Cursor, Error, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn take(cursor: &mut Cursor<LedgerEntry, Memory>) -> Result<(), Error> {
    cursor.next().await?;
    Ok(())
}

fn main() {}
