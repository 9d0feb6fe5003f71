//! An item that `#[cfg]` removes takes along what stands beside it, in either order.
#![deny(warnings)]

use tidings::{stream_spec, topic};

#[topic(name = "a", version = 1)]
#[stream_spec(name = "a", version = 1)]
#[cfg(any())]
pub struct Above;

#[cfg(any())]
#[stream_spec(name = "b", version = 1)]
#[topic(name = "b", version = 1)]
pub struct Below;

#[topic(name = "c", version = 1, key(order))]
#[stream_spec(name = "c", version = 1, key(order))]
#[cfg(any())]
pub struct AboveKeyed {
    pub order: u64,
}

#[stream_spec(name = "d", version = 1, key(order))]
#[topic(name = "d", version = 1, key(order))]
#[cfg_attr(all(), cfg(any()))]
pub struct ByAttr {
    pub order: u64,
}

#[topic(name = "e", version = 1, key(order))]
#[stream_spec(name = "e", version = 1, key(order))]
#[cfg(all())]
pub struct Stays {
    pub order: u64,
}

#[cfg(any())]
#[derive(tidings::TopicKey)]
pub struct GoneKey(u8);

#[derive(tidings::TopicKey)]
#[cfg(any())]
pub struct GoneKeyToo(u8);

// The names are free.
pub struct Above;
pub struct AboveKeyed;
pub struct AboveKeyedKey;
pub struct AboveKeyedStreamKey;
pub struct ByAttr;
pub struct ByAttrKey;
pub struct ByAttrStreamKey;

fn main() {
    let _ = StaysKey { order: 1 };
    let _ = StaysStreamKey { order: 1 };
}
