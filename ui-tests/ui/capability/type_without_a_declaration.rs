use tidings::Broker;
use tidings::prelude::*;

#[derive(serde::Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn subscribe(broker: &Broker<tidings::backend::Memory>) {
    let _ = OrderPlaced::subscribe(broker, &()).await;
}

fn main() {}
