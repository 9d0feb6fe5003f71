//! `crate = ::name` reaches the library under the name that a manifest gives it.
#![deny(warnings)]

extern crate tidings as bus;

use bus::{TopicKey, topic};

#[topic(name = "orders.placed", version = 1, key = OrderKey, crate = ::bus)]
pub struct OrderPlaced;

#[topic(crate = "::bus", name = "orders.sent", version = 1, key(order))]
pub struct OrderSent {
    pub order: u64,
}

#[derive(TopicKey)]
#[topic_key(crate = ::bus)]
pub struct OrderKey(pub u64);

fn main() {}
