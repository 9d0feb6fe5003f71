use tidings::topic;

use tidings::Broker;
use tidings::backend::Memory;
use tidings::prelude::*;

#[topic(name = "Orders", version = 0, key(regoin, order))]
#[derive(serde::Serialize)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

async fn uses(broker: &Broker<Memory>, event: &OrderPlaced) {
    let topic = OrderPlaced::topic(broker).unwrap();
    topic.publish(event).await.unwrap();
    event.publish(broker).await.unwrap();
    let key = OrderPlacedKey { region: String::new(), order: 1 };
    drop(key);
}

fn main() {
    let _ = uses;
}
