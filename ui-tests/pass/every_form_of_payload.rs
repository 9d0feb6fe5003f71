//! Structs and enums of every form are payloads.
#![deny(warnings)]
#![allow(dead_code)]

use serde::{Deserialize, Serialize};
use tidings::{Broker, backend::Memory, prelude::*, stream_spec, topic};
use ui_tests::LogOnly;

#[topic(name = "a", version = 1)]
#[stream_spec(name = "a", version = 1)]
#[derive(Serialize, Deserialize)]
pub struct Unit;

#[stream_spec(name = "b", version = 4_294_967_295)]
#[topic(name = "b", version = 4_294_967_295)]
#[derive(Serialize, Deserialize)]
pub struct Empty {}

#[topic(name = "c", version = 0x10)]
#[stream_spec(name = "c", version = 0x10)]
#[derive(Serialize, Deserialize)]
pub struct EmptyTuple();

#[stream_spec(name = "d", version = 1, key = (),)]
#[topic(name = "d", version = 1, key = (),)]
#[derive(Serialize, Deserialize)]
pub struct Tuple(pub u8);

#[topic(name = "e", version = 1, codec = tidings::codec::Json)]
#[stream_spec(name = "e", version = 1, codec = tidings::codec::Json)]
#[derive(Serialize, Deserialize)]
pub enum Enum {
    A,
    B(u8),
    C { c: u8 },
}

#[stream_spec(name = "f", version = 1)]
#[topic(name = "f", version = 1)]
pub enum Never {}

#[topic(name = "0-a.b--c.v.vx", version = 1, key(1, 0))]
#[stream_spec(name = "0-a.b--c.v.vx", version = 1, key(1, 0))]
#[derive(Serialize, Deserialize)]
pub struct Keyed(pub u8, pub String);

async fn uses(broker: &Broker<Memory>, logs: &Broker<LogOnly>) {
    let _ = Unit.publish(broker, &()).await;
    let _ = Empty {}.publish(broker, &()).await;
    let _ = EmptyTuple().publish(broker, &()).await;
    let _ = Tuple(1).publish(broker, &()).await;
    let _ = Enum::C { c: 1 }.publish(broker, &()).await;
    let _ = Never::topic(broker);
    let _ = Keyed(1, String::new()).publish(broker).await;
    let _ = KeyedKey(String::new(), 1);
    let _ = Unit.append(logs, &()).await;
    let _ = Empty {}.append(logs, &()).await;
    let _ = EmptyTuple().append(logs, &()).await;
    let _ = Tuple(1).append(logs, &()).await;
    let _ = Enum::C { c: 1 }.append(logs, &()).await;
    let _ = Never::stream(logs);
    let _ = Keyed(1, String::new()).append(logs).await;
    let _ = KeyedStreamKey(String::new(), 1);
}

fn main() {
    let _ = uses;
}
