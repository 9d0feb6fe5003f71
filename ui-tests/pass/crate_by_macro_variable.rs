//! A macro of another crate passes `$crate` on.
#![deny(warnings)]

use tidings::{stream_spec, topic};

pub mod bus {
    pub use tidings::*;
}

macro_rules! payload {
    ($ident:ident) => {
        #[topic(name = "orders.placed", version = 1, key(order), crate = $crate::bus)]
        #[stream_spec(name = "orders.placed", version = 1, key(order), crate = $crate::bus, requires(ack_groups, dedup), address = "legacy")]
        pub struct $ident {
            pub order: u64,
        }
    };
}

payload!(OrderPlaced);

fn main() {}
