use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(2))]
pub struct OrderPlaced(pub String, pub u64);

fn main() {}
