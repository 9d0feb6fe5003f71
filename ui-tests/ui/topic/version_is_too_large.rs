use tidings::topic;

#[topic(name = "orders.placed", version = 4_294_967_296)]
pub struct OrderPlaced {
    pub region: String,
    pub order: u64,
}

fn main() {}
