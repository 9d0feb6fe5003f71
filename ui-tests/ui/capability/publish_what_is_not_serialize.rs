use serde::Deserialize;
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn publish(broker: &Broker<tidings::backend::Memory>, event: &OrderPlaced, key: &String) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.publish(key, event).await;
}

fn main() {}
