//! The key type carries the parameters that its fields mention, and their bounds.
#![deny(warnings)]

use tidings::{SelfKeyed, StreamKeyed, TopicKey, stream_spec, topic};

pub trait Shop<T> {}

#[topic(name = "orders.placed", version = 1, key(tag, number))]
#[stream_spec(name = "orders.placed", version = 1, key(tag, number), requires(ack_groups))]
pub struct OrderPlaced<'a, T: Clone + Shop<U>, U: Default, const N: usize, V = u8>
where
    T: Send,
    U: Copy + 'a,
    V: Into<u64>,
{
    pub tag: T,
    pub number: Id<N>,
    pub rest: &'a U,
    pub other: V,
}

#[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id<const N: usize>(pub u64);

impl Shop<u16> for String {}

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = OrderPlaced::<String, u16, 4, u32>::topic(broker);
}

fn bind_stream(broker: &tidings::Broker<ui_tests::NoUnits>) {
    let _ = OrderPlaced::<String, u16, 4, u32>::stream(broker);
}

fn main() {
    let _ = (bind, bind_stream);
    let placed = OrderPlaced::<String, u16, 4, u32> { tag: "a".to_owned(), number: Id(1), rest: &1, other: 2 };
    assert_eq!(placed.topic_key(), OrderPlacedKey::<String, 4> { tag: "a".to_owned(), number: Id(1) });
    assert_eq!(placed.stream_key(), OrderPlacedStreamKey::<String, 4> { tag: "a".to_owned(), number: Id(1) });
}
