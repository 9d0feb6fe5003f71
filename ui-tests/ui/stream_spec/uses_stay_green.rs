use tidings::backend::Memory;
use tidings::prelude::*;
use tidings::{Broker, Start, stream_spec};

#[stream_spec(name = "Ledger", version = 0, key(acount, cents), requires(ack_groups, tansactions, dedup, dedup), address = "")]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

async fn uses(broker: &Broker<Memory>, entry: &LedgerEntry) {
    let stream = LedgerEntry::stream(broker).unwrap();
    stream.append(entry).await.unwrap();
    entry.append(broker).await.unwrap();
    stream.ack_group("billing").unwrap().ensure(Start::Earliest).await.unwrap();
    let key = LedgerEntryStreamKey { account: String::new(), cents: 1 };
    drop(key);
}

fn main() {
    let _ = uses;
}
