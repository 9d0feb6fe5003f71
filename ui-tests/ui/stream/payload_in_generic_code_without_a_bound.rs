use serde::{Deserialize, Serialize};
use tidings::{Broker, StreamSpec, StreamedBy, capability::Log, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    pub account: String,
    pub cents: i64,
}

fn bind<T: StreamSpec, B: Log>(broker: &Broker<B>) {
    let _ = T::bind(broker);
}

fn main() {}
