//! A type with its own function `topic` or `stream` renames the generated one.
#![deny(warnings)]

use tidings::{Broker, backend::Memory, stream_spec, topic};
use ui_tests::LogOnly;

#[topic(name = "orders.placed", version = 1, bind = bound)]
#[stream_spec(name = "orders.placed", version = 1, bind = ledger)]
pub struct OrderPlaced;

impl OrderPlaced {
    pub fn topic() -> &'static str {
        "own"
    }

    pub fn stream() -> &'static str {
        "own too"
    }
}

fn uses(broker: &Broker<Memory>, logs: &Broker<LogOnly>) {
    let _ = OrderPlaced::bound(broker);
    let _ = OrderPlaced::ledger(logs);
}

fn main() {
    let _ = uses;
    assert_eq!((OrderPlaced::topic(), OrderPlaced::stream()), ("own", "own too"));
}
