//! The user's items with names of the prelude are not taken for the prelude's.
#![deny(warnings)]
#![allow(dead_code, unused_macros)]

use tidings::{TopicKey, stream_spec, topic};

struct Some;
struct None;
struct Ok;
struct Err;
struct Vec;
struct Option;
struct Result;
struct String;
struct Box;
struct Self_;
trait Into {}
trait From {}
trait Clone {}
trait Debug {}
trait Hash {}
trait Eq {}
trait PartialEq {}
trait Default {}
trait ToString {}
macro_rules! unreachable {
    () => {
        compile_error!("the user's macro")
    };
}

type Text = std::string::String;

#[topic(name = "orders.placed", version = 1, key = Region)]
#[stream_spec(name = "orders.placed", version = 1, key = Region, requires(ack_groups, dedup), address = "legacy")]
pub struct OrderPlaced;

#[stream_spec(name = "orders.sent", version = 1, key(region, order), requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "orders.sent", version = 1, key(region, order))]
pub struct OrderSent {
    pub region: Text,
    pub order: u64,
}

#[derive(TopicKey)]
pub enum Region {
    Some,
    None,
    Ok,
    Err,
}

#[derive(TopicKey)]
pub struct Nested {
    region: Region,
    text: Text,
}

fn main() {
    let _ = unreachable_is_the_users;
}

fn unreachable_is_the_users() {}
