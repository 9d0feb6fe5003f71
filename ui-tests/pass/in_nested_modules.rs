//! Paths are absolute, so a module may hold anything.
#![deny(warnings)]

pub mod tidings {
    pub mod core {}
    pub mod inner {
        pub mod tidings {}
        pub mod std {}

        #[::tidings::topic(name = "orders.placed", version = 1, key(order))]
        #[::tidings::stream_spec(
            name = "orders.placed",
            version = 1,
            key(order),
            requires(ack_groups, dedup),
            address = "legacy"
        )]
        pub struct OrderPlaced {
            pub order: super::super::Order,
        }

        #[derive(::tidings::TopicKey)]
        pub struct Key(pub u8);
    }
}

pub type Order = u64;

fn main() {
    let _ = tidings::inner::OrderPlacedKey { order: 1 };
}
