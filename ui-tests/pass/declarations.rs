//! The declaration is a constant of the type.
#![deny(warnings)]

use tidings::{TopicSpec, topic};

#[topic(name = "orders.placed", version = 7)]
pub struct OrderPlaced;

const NAME: &str = OrderPlaced::DECLARATION.name();
const VERSION: u32 = OrderPlaced::DECLARATION.version();

fn main() {
    assert_eq!((NAME, VERSION), ("orders.placed", 7));
}
