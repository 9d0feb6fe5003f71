use tidings::backend::Redis;
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn bind(broker: &Broker<Redis>) {
    let _ = broker.unit();
}

fn main() {}
