//! A key field exists wherever the payload's own does.
#![deny(warnings)]

use tidings::{SelfKeyed, TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key(region, order, gone))]
#[stream_spec(name = "orders.placed", version = 1, key(region, order, gone))]
pub struct OrderPlaced {
    #[cfg(all())]
    pub region: String,
    #[cfg(any())]
    pub region: u64,
    pub order: u64,
    #[cfg(any())]
    pub gone: Missing,
}

// The attribute stands below a derive, which has applied the conditions before.
#[derive(Clone, Debug)]
#[stream_spec(name = "orders.sent", version = 1, key(region))]
#[topic(name = "orders.sent", version = 1, key(region))]
pub struct OrderSent {
    #[cfg_attr(all(), cfg(all()))]
    pub region: String,
    #[cfg_attr(all(), cfg(any()))]
    pub region: u64,
}

#[derive(TopicKey)]
pub struct OrderKey {
    #[cfg(any())]
    pub gone: Missing,
    pub order: u64,
}

#[derive(TopicKey)]
pub enum Region {
    Europe,
    #[cfg(any())]
    Gone,
}

fn main() {
    let placed = OrderPlaced { region: "eu".to_owned(), order: 1 };
    assert_eq!(placed.topic_key(), OrderPlacedKey { region: "eu".to_owned(), order: 1 });
    let _ = OrderKey { order: 1 };
    let _ = Region::Europe;
}
