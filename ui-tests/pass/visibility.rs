//! What is generated is as visible as the item.
#![deny(warnings)]

mod a {
    pub mod b {
        use tidings::{stream_spec, topic};

        #[topic(name = "a", version = 1, key(order))]
        #[stream_spec(name = "a", version = 1, key(order))]
        pub struct Public {
            order: u64,
        }

        #[stream_spec(name = "b", version = 1, key(order))]
        #[topic(name = "b", version = 1, key(order))]
        pub(crate) struct InCrate {
            order: u64,
        }

        #[topic(name = "c", version = 1, key(order))]
        #[stream_spec(name = "c", version = 1, key(order))]
        pub(in crate::a) struct InA {
            order: u64,
        }

        #[stream_spec(name = "d", version = 1, key(order))]
        #[topic(name = "d", version = 1, key(order))]
        pub(super) struct InSuper {
            order: u64,
        }

        #[topic(name = "e", version = 1, key(0))]
        #[stream_spec(name = "e", version = 1, key(0))]
        struct Private(u64);

        pub mod c {
            pub fn uses(broker: &tidings::Broker<tidings::backend::Memory>) {
                let _ = super::Private::topic(broker);
                let _ = super::PrivateKey(1);
            }
        }
    }

    pub fn uses(broker: &tidings::Broker<tidings::backend::Memory>) {
        let _ = b::InA::topic(broker);
        let _ = b::InAKey { order: 1 };
        let _ = b::InSuper::topic(broker);
        let _ = b::InSuperKey { order: 1 };
    }
}

fn uses(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = a::b::Public::topic(broker);
    let _ = a::b::PublicKey { order: 1 };
    let _ = a::b::InCrate::topic(broker);
    let _ = a::b::InCrateKey { order: 1 };
    a::uses(broker);
    a::b::c::uses(broker);
}

fn main() {
    let _ = uses;
}
