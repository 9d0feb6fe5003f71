use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced<'a> {
    pub order: &'a str,
}

async fn subscribe<'a>(broker: &Broker<tidings::backend::Memory>, key: &String) {
    let topic = OrderPlaced::<'a>::topic(broker).unwrap();
    let _ = topic.subscribe(key).await;
}

fn main() {}
