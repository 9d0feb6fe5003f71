//! An item that `#[cfg]` removes takes along what stands beside it, in either order.
#![deny(warnings)]

use tidings::topic;

#[topic(name = "a", version = 1)]
#[cfg(any())]
pub struct Above;

#[cfg(any())]
#[topic(name = "b", version = 1)]
pub struct Below;

#[topic(name = "c", version = 1, key(order))]
#[cfg(any())]
pub struct AboveKeyed {
    pub order: u64,
}

#[topic(name = "d", version = 1, key(order))]
#[cfg_attr(all(), cfg(any()))]
pub struct ByAttr {
    pub order: u64,
}

#[topic(name = "e", version = 1, key(order))]
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
pub struct ByAttr;
pub struct ByAttrKey;

fn main() {
    let _ = StaysKey { order: 1 };
}
