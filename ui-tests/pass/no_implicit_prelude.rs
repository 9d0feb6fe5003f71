//! The generated code names everything by its full path.
#![deny(warnings)]
#![no_implicit_prelude]

use ::tidings::{TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key = OrderKey)]
#[stream_spec(name = "orders.placed", version = 1, key = OrderKey, requires(ack_groups, dedup), address = "legacy")]
pub struct OrderPlaced;

#[stream_spec(name = "orders.sent", version = 1, key(region, order), requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "orders.sent", version = 1, key(region, order))]
pub struct OrderSent {
    pub region: Region,
    pub order: OrderKey,
}

#[topic(name = "orders.lost", version = 1, key(0))]
#[stream_spec(name = "orders.lost", version = 1, key(0))]
pub struct OrderLost(pub All);

#[derive(TopicKey)]
#[derive(::std::clone::Clone, ::std::fmt::Debug, ::std::cmp::PartialEq, ::std::cmp::Eq, ::std::hash::Hash)]
pub struct OrderKey(pub u8, pub ::std::string::String);

#[derive(TopicKey)]
#[derive(::std::clone::Clone, ::std::fmt::Debug, ::std::cmp::PartialEq, ::std::cmp::Eq, ::std::hash::Hash)]
pub enum Region {
    Europe,
    America,
}

#[derive(TopicKey)]
#[derive(::std::clone::Clone, ::std::fmt::Debug, ::std::cmp::PartialEq, ::std::cmp::Eq, ::std::hash::Hash)]
pub struct All;

fn main() {}
