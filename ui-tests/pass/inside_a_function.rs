//! The macros work where only statements stand.
#![deny(warnings)]

use tidings::{Broker, SelfKeyed, backend::Memory};

fn uses(broker: &Broker<Memory>) {
    #[tidings::topic(name = "orders.placed", version = 1, key(order))]
    #[tidings::stream_spec(name = "orders.placed", version = 1, key(order))]
    struct OrderPlaced {
        order: u64,
    }

    #[derive(tidings::TopicKey)]
    struct Key(#[allow(dead_code)] u8);

    let _ = Key(1);
    let _ = OrderPlaced::topic(broker);
    let _ = OrderPlaced { order: 1 }.topic_key() == OrderPlacedKey { order: 1 };
    {
        #[tidings::stream_spec(name = "orders.placed", version = 2)]
        #[tidings::topic(name = "orders.placed", version = 2)]
        struct OrderPlaced;
        let _ = OrderPlaced::topic(broker);
        let _ = OrderPlaced;
    }
}

fn main() {
    let _ = uses;
}
