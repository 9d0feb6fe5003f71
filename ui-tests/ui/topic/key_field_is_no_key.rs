use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(region, weight))]
pub struct OrderPlaced {
    pub region: String,
    pub weight: Option<u8>,
}

fn main() {}
