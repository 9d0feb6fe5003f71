use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
pub struct OrderPlaced {
    pub order: u64,
}

impl OrderPlaced {
    pub fn topic() {}
}

fn main() {}
