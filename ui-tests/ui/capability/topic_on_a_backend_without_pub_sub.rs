use serde::{Deserialize, Serialize};
use tidings::{Broker, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

fn bind(broker: &Broker<ui_tests::NoTopics>) {
    let _ = OrderPlaced::topic(broker);
}

fn main() {}
