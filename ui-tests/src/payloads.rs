use tidings::{TopicKey, stream_spec, topic};

/// A public payload.
#[topic(name = "orders.placed", version = 1, key = OrderKey)]
#[stream_spec(name = "orders.placed", version = 1, key = OrderKey)]
#[derive(Debug)]
pub struct OrderPlaced<'a> {
    /// The order.
    pub order: &'a str,
}

/// A public payload with a key of its own fields.
#[stream_spec(name = "orders.sent", version = 1, key(region, order))]
#[topic(name = "orders.sent", version = 1, key(region, order))]
#[derive(Debug)]
pub struct OrderSent {
    /// The region.
    pub region: Region,
    /// The order.
    pub order: u64,
}

/// A generic payload with a key of its own fields.
#[topic(name = "orders.lost", version = 1, key(0, 1))]
#[stream_spec(name = "orders.lost", version = 1, key(0, 1))]
#[derive(Debug)]
pub struct OrderLost<T>(pub T, pub T, pub u64);

/// A key with named fields.
#[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
pub struct OrderKey {
    /// The region.
    pub region: Region,
    /// The order.
    pub order: u64,
}

/// A key of one word.
#[derive(TopicKey, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    /// Europe.
    #[topic_key(rename = "eu")]
    Europe,
    /// America.
    #[topic_key(rename = "us")]
    America,
}

#[stream_spec(name = "orders.inner", version = 1, key(tag))]
#[topic(name = "orders.inner", version = 1, key(tag))]
struct Inner<'a, T> {
    tag: Tag<T>,
    text: &'a str,
}

#[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
struct Tag<T>(T);

const _: fn() = || {
    let inner = Inner { tag: Tag(1_u8), text: "" };
    let _ = inner.text;
};
