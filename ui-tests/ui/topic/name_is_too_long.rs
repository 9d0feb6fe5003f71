use tidings::topic;

#[topic(name = "orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-orders-", version = 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
