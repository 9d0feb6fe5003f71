use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn publish(broker: &Broker<tidings::backend::Memory>, event: &OrderPlaced) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.publish(&5_u64, event).await;
}

fn main() {}
