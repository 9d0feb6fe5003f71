use tidings::backend::Kafka;
use tidings::{Broker, DurableOwner, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn bind(broker: &Broker<Kafka>, owner: &DurableOwner) {
    let _ = LedgerEntry::stream(broker).unwrap().cursor(owner).await;
}

fn main() {}
