use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn publish(broker: &Broker<ui_tests::NoTopics>, event: &OrderPlaced, key: &String) {
    use tidings::prelude::*;
    let _ = event.publish(broker, key).await;
}

fn main() {}
