use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(1))]
pub struct OrderPlaced(#[cfg(any())] pub String, pub u64);

fn main() {}
