use tidings::topic;

#[topic(name = "orders.placed", version = 1)]
pub trait Placed {}

fn main() {}
