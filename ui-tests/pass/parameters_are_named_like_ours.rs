//! Type parameters of any usual name clash with none that is generated.
#![deny(warnings)]

use tidings::{TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1)]
#[stream_spec(name = "orders.placed", version = 1)]
pub struct P<S, D, E, T, B, K, F, V>(pub S, pub D, pub E, pub T, pub B, pub K, pub F, pub V);

#[stream_spec(name = "orders.sent", version = 1, key(t, k))]
#[topic(name = "orders.sent", version = 1, key(t, k))]
pub struct Q<S, D, E, T, B, K> {
    pub s: S,
    pub d: D,
    pub e: E,
    pub t: T,
    pub b: B,
    pub k: K,
}

#[derive(TopicKey)]
pub struct Key<T, B, K, S, D>(pub T, pub B, pub K, pub S, pub D);

type Full = Q<u8, u8, u8, u16, u8, String>;

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = P::<u8, u8, u8, u8, u8, u8, u8, u8>::topic(broker);
    let _ = Full::topic(broker);
}

fn main() {
    let _ = bind;
    let _ = QKey::<u16, String> { t: 1, k: String::new() };
}
