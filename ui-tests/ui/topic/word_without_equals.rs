use tidings::topic;

#[topic(name("orders.placed"), version: 1)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
