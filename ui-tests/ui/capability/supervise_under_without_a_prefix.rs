use serde::{Deserialize, Serialize};
use tidings::backend::Memory;
use tidings::{Broker, SupervisePolicy, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

fn supervise(broker: &Broker<Memory>) {
    let topic = OrderPlaced::topic(broker).unwrap();
    let _ = topic.supervise_under(("eu",), SupervisePolicy::default());
}

fn main() {}
