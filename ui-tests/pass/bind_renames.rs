//! A type with its own function `topic` renames the generated one.
#![deny(warnings)]

use tidings::{Broker, backend::Memory, topic};

#[topic(name = "orders.placed", version = 1, bind = bound)]
pub struct OrderPlaced;

impl OrderPlaced {
    pub fn topic() -> &'static str {
        "own"
    }
}

fn uses(broker: &Broker<Memory>) {
    let _ = OrderPlaced::bound(broker);
}

fn main() {
    let _ = uses;
    assert_eq!(OrderPlaced::topic(), "own");
}
