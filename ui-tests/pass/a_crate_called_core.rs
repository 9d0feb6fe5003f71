//! A crate in scope called `core` is not taken for the standard one.
#![deny(warnings)]
#![allow(dead_code)]

extern crate serde as core;

use tidings::{TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key = Region)]
#[stream_spec(name = "orders.placed", version = 1, key = Region)]
pub struct OrderPlaced;

#[stream_spec(name = "orders.sent", version = 1, key(region, order))]
#[topic(name = "orders.sent", version = 1, key(region, order))]
pub struct OrderSent {
    pub region: String,
    pub order: i64,
}

#[derive(TopicKey)]
pub enum Region {
    Europe,
}

#[derive(TopicKey)]
pub struct Pair(u8, Region);

fn main() {
    let _ = core::de::IgnoredAny;
}
