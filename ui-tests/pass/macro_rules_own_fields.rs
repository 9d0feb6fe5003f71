//! Fields whose names come from a macro are found by the code that is generated for them.
#![deny(warnings)]
#![allow(dead_code)]

use tidings::{SelfKeyed, TopicKey, stream_spec, topic};

macro_rules! make {
    ($ident:ident, $key:ident) => {
        #[topic(name = "orders.placed", version = 1, key(to, region))]
        #[stream_spec(name = "orders.placed", version = 1, key(to, region))]
        pub struct $ident {
            pub to: String,
            pub region: u8,
        }

        #[derive(TopicKey)]
        pub struct $key {
            pub from: u8,
            pub to: u8,
        }

        impl $ident {
            fn new() -> Self {
                Self { to: String::from("x"), region: 7 }
            }
        }
    };
}

make!(OrderPlaced, OrderKey);

macro_rules! make_mixed {
    ($field:ident) => {
        #[stream_spec(name = "orders.sent", version = 1, key($field, own))]
        #[topic(name = "orders.sent", version = 1, key($field, own))]
        pub struct OrderSent {
            pub $field: u8,
            pub own: u8,
        }
    };
}

make_mixed!(own_too);

fn main() {
    let key = OrderPlaced::new().topic_key();
    assert_eq!(key, OrderPlaced::new().topic_key());
    let sent = OrderSent { own_too: 1, own: 2 };
    let _ = sent.topic_key();
}
