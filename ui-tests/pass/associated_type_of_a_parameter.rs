//! Bounds are put on the field types, not on the parameters.
#![deny(warnings)]

use tidings::{TopicKey, stream_spec, topic};

pub trait Shop {
    type Number;
}

/// It is no key itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Books;

impl Shop for Books {
    type Number = u64;
}

#[derive(TopicKey)]
pub struct OrderKey<S: Shop> {
    pub number: S::Number,
}

#[derive(TopicKey)]
pub struct Wrapped<S: Shop>(pub <S as Shop>::Number);

#[topic(name = "orders.placed", version = 1, key(number))]
#[stream_spec(name = "orders.placed", version = 1, key(number))]
pub struct OrderPlaced<S: Shop> {
    pub number: S::Number,
}

fn needs_key<K: TopicKey>() {}

fn main() {
    needs_key::<OrderKey<Books>>();
    needs_key::<Wrapped<Books>>();
    needs_key::<OrderPlacedKey<Books>>();
}
