use tidings::topic;

#[topic(name = "orders.placed.v3", version = 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
