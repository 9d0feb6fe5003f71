//! What comes through `macro_rules!` is taken like what is written in place.
#![deny(warnings)]

use tidings::{TopicKey, stream_spec, topic};

macro_rules! payload {
    ($vis:vis, $name:literal, $version:literal, $ident:ident, $key:ty, $codec:path, $bind:ident) => {
        #[topic(name = $name, version = $version, key = $key, codec = $codec, bind = $bind)]
        $vis struct $ident;
    };
}

payload!(pub, "orders.placed", 1, OrderPlaced, Pair<u8, u16>, tidings::codec::Json, placed);
payload!(pub(crate), "orders.sent", 2, OrderSent, (), tidings::codec::Json, topic);
payload!(, "orders.lost", 3, OrderLost, String, tidings::codec::Json, lost);

#[derive(TopicKey)]
pub struct Pair<A, B>(pub A, pub B);

macro_rules! entry {
    ($name:literal, $address:literal, $ident:ident, $key:ty, $krate:path, $($capability:ident)*) => {
        #[stream_spec(
            name = $name, version = 1, key = $key, requires($($capability),*), address = $address, crate = $krate
        )]
        pub struct $ident;
    };
}

entry!("ledger.entries", "legacy-ledger", LedgerEntry, Pair<u8, u16>, ::tidings, ack_groups dedup);

macro_rules! keyed {
    ($ident:ident, $($field:ident: $ty:ty),+) => {
        #[topic(name = "orders.found", version = 1, key($($field),+))]
        #[stream_spec(name = "orders.found", version = 1, key($($field),+))]
        pub struct $ident {
            $(pub $field: $ty),+
        }
    };
}

keyed!(OrderFound, region: String, order: u64);

macro_rules! renamed {
    ($text:literal, $krate:path) => {
        #[derive(TopicKey)]
        #[topic_key(crate = $krate)]
        pub enum Region {
            #[topic_key(rename = $text)]
            Europe,
        }
    };
}

renamed!("eu", ::tidings);

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = OrderPlaced::placed(broker);
    let _ = OrderSent::topic(broker);
    let _ = OrderLost::lost(broker);
    let _ = OrderFound::topic(broker);
}

fn main() {
    let _ = bind;
    let _ = OrderFoundKey { region: String::new(), order: 1 };
    let _ = OrderFoundStreamKey { region: String::new(), order: 1 };
    assert_eq!(<LedgerEntry as tidings::StreamSpec>::ADDRESS, Some("legacy-ledger"));
    assert_eq!(<LedgerEntry as tidings::StreamSpec>::REQUIRES.len(), 2);
}
