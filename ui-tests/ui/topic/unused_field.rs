#![deny(dead_code)]

use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(region))]
struct OrderPlaced {
    region: String,
    unused: u64,
}

fn main() {
    let _ = OrderPlaced { region: String::new(), unused: 1 };
}
