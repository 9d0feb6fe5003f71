//! The strictest lints find nothing in generated code; `src/lib.rs` shows the same to clippy.
#![deny(warnings)]
#![deny(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    single_use_lifetimes,
    missing_copy_implementations,
    unused_lifetimes,
    elided_lifetimes_in_paths,
    unsafe_code,
    rustdoc::all
)]
#![allow(missing_copy_implementations, unreachable_pub)]

//!
use tidings::{TopicKey, stream_spec, topic};

/// A public payload.
#[topic(name = "orders.placed", version = 1, key = OrderKey)]
#[stream_spec(name = "orders.placed", version = 1, key = OrderKey, requires(ack_groups, dedup), address = "legacy")]
#[derive(Debug)]
pub struct OrderPlaced<'a> {
    /// The order.
    pub order: &'a str,
}

#[stream_spec(name = "orders.sent", version = 1, key(region, order), requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "orders.sent", version = 1, key(region, order))]
#[derive(Debug)]
struct OrderSent {
    region: String,
    order: u64,
}

/// A public payload with a key of its own.
#[topic(name = "orders.lost", version = 1, key(0, 1))]
#[stream_spec(name = "orders.lost", version = 1, key(0, 1))]
#[derive(Debug)]
pub struct OrderLost<T>(pub T, pub u64);

/// A key.
#[derive(TopicKey, Debug)]
pub struct OrderKey {
    /// The region.
    pub region: Region,
    order: u64,
}

/// A key.
#[derive(TopicKey, Debug)]
pub enum Region {
    /// The only one.
    Europe,
}

#[deprecated]
#[stream_spec(name = "orders.old", version = 1, key(order))]
#[topic(name = "orders.old", version = 1, key(order))]
#[derive(Debug)]
struct Old {
    order: u64,
}

fn main() {
    let sent = OrderSent { region: String::new(), order: 1 };
    let key = OrderKey { region: Region::Europe, order: 1 };
    println!("{sent:?} {key:?}");
}
