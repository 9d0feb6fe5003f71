//! `crate = ::name` reaches the library under the name that a manifest gives it.
#![deny(warnings)]

extern crate tidings as bus;

use bus::{TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key = OrderKey, crate = ::bus)]
#[stream_spec(name = "orders.placed", version = 1, key = OrderKey, crate = ::bus, requires(ack_groups, dedup), address = "legacy")]
pub struct OrderPlaced;

#[stream_spec(
    crate = "::bus",
    name = "orders.sent",
    version = 1,
    key(order),
    requires(ack_groups, dedup),
    address = "legacy"
)]
#[topic(crate = "::bus", name = "orders.sent", version = 1, key(order))]
pub struct OrderSent {
    pub order: u64,
}

#[derive(TopicKey)]
#[topic_key(crate = ::bus)]
pub struct OrderKey(pub u64);

fn main() {}
