//! Where clauses are kept, whatever their commas.
#![deny(warnings)]
#![allow(clippy::all)]

use tidings::{TopicKey, topic};

#[topic(name = "orders.placed", version = 1)]
pub struct P<T>
where
    T: Clone,
{
    pub a: T,
}

#[topic(name = "orders.sent", version = 1, key(0))]
pub struct Q<T, U>(pub T, pub U)
where
    T: Clone + PartialEq<U>,
    U: Copy,;

#[topic(name = "orders.lost", version = 1, key = ())]
pub enum R<T> where T: Clone, {
    A(T),
}

#[topic(name = "orders.found", version = 1)]
pub struct Empty<T>(pub T) where;

#[derive(TopicKey)]
pub struct K<T>
where
    T: Clone,
{
    pub a: T,
}

fn main() {}
