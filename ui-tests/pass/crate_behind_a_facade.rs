//! `crate = path` reaches the library wherever it is re-exported, as a path or as text.
#![deny(warnings)]

mod facade {
    pub mod inner {
        pub use tidings as bus;
    }
}

mod hidden {
    // Shadows the crate's own name for whatever forgets the leading `::`.
    pub mod tidings {}

    use crate::facade::inner::bus::{TopicKey, stream_spec, topic};

    #[topic(name = "orders.placed", version = 1, key = OrderKey, crate = crate::facade::inner::bus)]
    #[stream_spec(name = "orders.placed", version = 1, key = OrderKey, crate = crate::facade::inner::bus, requires(ack_groups, dedup), address = "legacy")]
    pub struct OrderPlaced;

    #[stream_spec(
        name = "orders.sent",
        version = 1,
        key(order),
        crate = "crate::facade::inner::bus",
        requires(ack_groups, dedup),
        address = "legacy"
    )]
    #[topic(name = "orders.sent", version = 1, key(order), crate = "crate::facade::inner::bus")]
    pub struct OrderSent {
        pub order: u64,
    }

    #[derive(TopicKey)]
    #[topic_key(crate = crate::facade::inner::bus)]
    pub struct OrderKey(pub u64, pub Region);

    #[derive(TopicKey)]
    #[topic_key(crate = "crate::facade::inner::bus")]
    pub enum Region {
        Europe,
    }
}

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = hidden::OrderPlaced::topic(broker);
    let _ = hidden::OrderSent::topic(broker);
}

fn main() {
    let _ = bind;
    let _ = hidden::OrderSentKey { order: 1 };
}
