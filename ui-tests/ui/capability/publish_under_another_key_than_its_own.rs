use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key(order))]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn publish(broker: &Broker<tidings::backend::Memory>, event: &OrderPlaced) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.publish(&OrderPlacedKey { order: 5 }, event).await;
}

fn main() {}
