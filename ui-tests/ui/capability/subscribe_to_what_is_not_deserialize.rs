use serde::Serialize;
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize)]
pub struct OrderPlaced {
    pub order: u64,
}

async fn subscribe(broker: &Broker<tidings::backend::Memory>, key: &String) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.subscribe(key).await;
}

fn main() {}
