//! The generated code calls traits by their path, so the user's methods are never taken for them.
#![deny(warnings)]
#![allow(clippy::should_implement_trait)]

use tidings::{SelfKeyed, StreamKeyed, TopicKey, stream_spec, topic};

macro_rules! methods {
    ($ident:ident) => {
        impl $ident {
            pub fn clone(&self) {}
            pub fn encode(&self) {}
            pub fn serialize(&self) {}
            pub fn key(&self) {}
            pub fn topic_key(&self) {}
            pub fn write_key(&self) {}
            pub fn publish(&self) {}
            pub fn stream_key(&self) {}
            pub fn write_stream_key(&self) {}
            pub fn append(&self) {}
            pub fn bind() {}
            pub fn subscribe() {}
            pub fn write(&self) {}
            pub fn read() {}
            pub fn segment(&self) {}
            pub fn fmt(&self) {}
        }
    };
}

#[topic(name = "orders.placed", version = 1, key = Region)]
#[stream_spec(name = "orders.placed", version = 1, key = Region)]
pub struct OrderPlaced;
methods!(OrderPlaced);

#[stream_spec(name = "orders.sent", version = 1, key(region, order))]
#[topic(name = "orders.sent", version = 1, key(region, order))]
pub struct OrderSent {
    pub region: Region,
    pub order: u64,
}
methods!(OrderSent);

#[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    Europe,
}
methods!(Region);

#[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wrapper(pub Region);
methods!(Wrapper);

fn main() {
    let sent = OrderSent { region: Region::Europe, order: 1 };
    assert_eq!(SelfKeyed::topic_key(&sent), OrderSentKey { region: Region::Europe, order: 1 });
    assert_eq!(StreamKeyed::stream_key(&sent), OrderSentStreamKey { region: Region::Europe, order: 1 });
}
