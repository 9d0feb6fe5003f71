//! Generated names are built of the text without `r#`.
#![deny(warnings)]
#![allow(non_camel_case_types)]

use tidings::{SelfKeyed, TopicKey, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key(r#type, r#async, r#match))]
#[stream_spec(
    name = "orders.placed",
    version = 1,
    key(r#type, r#async, r#match),
    requires(ack_groups, dedup),
    address = "legacy"
)]
pub struct r#move {
    pub r#type: String,
    pub r#async: u8,
    pub r#match: u16,
}

#[derive(TopicKey)]
pub struct Key {
    pub r#type: u8,
    pub r#fn: u8,
}

#[derive(TopicKey)]
pub enum r#enum {
    r#struct,
    r#trait,
}

#[stream_spec(name = "orders.sent", version = 1, bind = for_stream, requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "orders.sent", version = 1, bind = r#for)]
pub struct Sent;

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = Sent::r#for(broker);
}

fn main() {
    let _ = bind;
    let payload = r#move { r#type: "a".to_owned(), r#async: 1, r#match: 2 };
    assert_eq!(payload.topic_key(), moveKey { r#type: "a".to_owned(), r#async: 1, r#match: 2 });
}
