//! Where clauses are kept, whatever their commas.
#![deny(warnings)]
#![allow(clippy::all)]

use tidings::{TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1)]
#[stream_spec(name = "orders.placed", version = 1, requires(dedup))]
pub struct P<T>
where
    T: Clone,
{
    pub a: T,
}

#[topic(name = "orders.sent", version = 1, key(0))]
#[stream_spec(name = "orders.sent", version = 1, key(0), requires(dedup))]
pub struct Q<T, U>(pub T, pub U)
where
    T: Clone + PartialEq<U>,
    U: Copy,;

#[topic(name = "orders.lost", version = 1, key = ())]
#[stream_spec(name = "orders.lost", version = 1, key = (), requires(dedup))]
pub enum R<T> where T: Clone, {
    A(T),
}

#[topic(name = "orders.found", version = 1)]
#[stream_spec(name = "orders.found", version = 1, requires(dedup))]
pub struct Empty<T>(pub T) where;

#[derive(TopicKey)]
pub struct K<T>
where
    T: Clone,
{
    pub a: T,
}

fn main() {}
