use tidings::topic;

#[topic(nmae = "orders.placed", Version = 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
