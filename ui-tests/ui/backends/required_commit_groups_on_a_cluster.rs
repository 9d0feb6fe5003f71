use tidings::backend::RedisCluster;
use tidings::{Broker, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, requires(commit_groups))]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

fn bind(broker: &Broker<RedisCluster>) {
    let _ = LedgerEntry::stream(broker);
}

fn main() {}
