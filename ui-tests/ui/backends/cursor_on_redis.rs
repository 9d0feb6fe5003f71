use tidings::backend::Redis;
use tidings::{Broker, DurableOwner, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn bind(broker: &Broker<Redis>, owner: &DurableOwner) {
    let _ = LedgerEntry::stream(broker).unwrap().cursor(owner).await;
}

fn main() {}
