use tidings::backend::Kafka;
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderPlaced;

fn bind(broker: &Broker<Kafka>) {
    let _ = OrderPlaced::topic(broker);
}

fn main() {}
