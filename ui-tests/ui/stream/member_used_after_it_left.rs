use std::time::Duration;

use tidings::backend::Memory;
use tidings::{Member, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn share(member: Member<LedgerEntry, Memory>) {
    member.leave().await;
    let _ = member.read(1, Duration::ZERO).await;
}

fn main() {}
