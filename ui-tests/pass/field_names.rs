//! Fields may be named like what generated code uses.
#![deny(warnings)]
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals, dead_code)]

use tidings::{SelfKeyed, TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key(to, from, self_, __to, __f0, Some, broker, key, Ok))]
#[stream_spec(name = "orders.placed", version = 1, key(to, from, self_, __to, __f0, Some, broker, key, Ok))]
pub struct OrderPlaced {
    pub to: u8,
    pub from: u8,
    pub self_: u8,
    pub __to: u8,
    pub __f0: u8,
    pub Some: u8,
    pub broker: u8,
    pub key: u8,
    pub Ok: u8,
}

#[derive(TopicKey)]
pub struct Key {
    pub to: u8,
    pub from: u8,
    pub self_: u8,
    pub __to: u8,
    pub __from: u8,
    pub Ok: u8,
}

// Unit structs and constants that a pattern or a parameter could be taken for.
pub struct to;
pub struct from;
pub struct broker;
pub const topic_key: u8 = 1;

fn main() {
    let _ = OrderPlaced { to: 1, from: 2, self_: 3, __to: 4, __f0: 5, Some: 6, broker: 7, key: 8, Ok: 9 }.topic_key();
}
