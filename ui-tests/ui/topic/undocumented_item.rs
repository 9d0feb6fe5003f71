//! The lint is shown at the user's item and field, and at nothing generated.
#![deny(missing_docs)]

use tidings::topic;

#[topic(name = "orders.placed", version = 1, key(region))]
pub struct OrderPlaced {
    pub region: String,
}

fn main() {}
