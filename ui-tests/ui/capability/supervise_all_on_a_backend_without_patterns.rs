use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn subscribe(broker: &Broker<ui_tests::NoPatterns>) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.supervise_all(tidings::SupervisePolicy::default()).run(async |_, ()| Ok(()), async |_, ()| Ok(())).await;
}

fn main() {}
