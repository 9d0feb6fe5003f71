use tidings::capability::Log;
use tidings::{DurableOwner, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct LedgerEntry;

async fn bind<B: Log>(stream: &Stream<LedgerEntry, B>, owner: &DurableOwner) {
    let _ = stream.cursor(owner).await;
}

fn main() {}
