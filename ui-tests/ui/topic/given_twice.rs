use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
#[topic(name = "orders.sent", version = 2)]
pub struct OrderPlaced {
    pub order: u64,
}

fn main() {}
