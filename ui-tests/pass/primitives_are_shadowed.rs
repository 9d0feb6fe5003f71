//! The user's items with names of primitive types are not taken for the primitives.
#![deny(warnings)]
#![allow(non_camel_case_types, dead_code)]

use tidings::{TopicKey, stream_spec, topic};

pub struct u8;
pub struct u32;
pub struct bool;
pub mod str {}
pub mod u64 {}

#[topic(name = "orders.placed", version = 1, key = Region)]
#[stream_spec(name = "orders.placed", version = 1, key = Region, requires(ack_groups, dedup), address = "legacy")]
pub struct OrderPlaced(pub u8, pub u32, pub bool);

#[stream_spec(name = "orders.sent", version = 1, key(region, order), requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "orders.sent", version = 1, key(region, order))]
pub struct OrderSent {
    pub region: String,
    pub order: i64,
}

#[derive(TopicKey)]
pub enum Region {
    Europe,
}

fn main() {}
