use tidings::topic;

pub struct Placed;

#[topic(name = "orders.placed", version = 1)]
impl Placed {}

fn main() {}
