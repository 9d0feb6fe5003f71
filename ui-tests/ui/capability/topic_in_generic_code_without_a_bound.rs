use serde::{Deserialize, Serialize};
use tidings::{Broker, capability::Backend, topic};

#[topic(name = "orders.placed", version = 1, key = String)]
#[derive(Serialize, Deserialize)]
pub struct OrderPlaced {
    pub order: u64,
}

fn bind<B: Backend>(broker: &Broker<B>) {
    let _ = OrderPlaced::topic(broker);
}

fn main() {}
