use tidings::topic;

#[topic(name = "orders.placed")]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
