//! Nothing is imported into the scope of the item, so a payload may have any name.
#![deny(warnings)]

use tidings::{stream_spec, topic};

#[topic(name = "a", version = 1, key = Key)]
#[stream_spec(name = "a", version = 1, key = Key, requires(ack_groups, dedup), address = "legacy")]
pub struct Config;
#[stream_spec(name = "b", version = 1, requires(ack_groups, dedup), address = "legacy")]
#[topic(name = "b", version = 1)]
pub struct Topic;
#[topic(name = "c", version = 1)]
#[stream_spec(name = "c", version = 1)]
pub struct Stream;
#[stream_spec(name = "d", version = 1)]
#[topic(name = "d", version = 1)]
pub struct Error;
#[topic(name = "e", version = 1)]
#[stream_spec(name = "e", version = 1)]
pub struct Message;
#[stream_spec(name = "f", version = 1)]
#[topic(name = "f", version = 1)]
pub struct Broker;
#[topic(name = "g", version = 1, key(key))]
#[stream_spec(name = "g", version = 1, key(key))]
pub struct KeyWriter {
    pub key: String,
}
#[stream_spec(name = "h", version = 1)]
#[topic(name = "h", version = 1)]
pub struct TopicSpec;
#[topic(name = "i", version = 1)]
#[stream_spec(name = "i", version = 1)]
pub struct PublishTopic;
#[stream_spec(name = "j", version = 1)]
#[topic(name = "j", version = 1)]
pub struct Declaration;

#[derive(tidings::TopicKey)]
pub struct Key(pub TopicKey, pub KeyError);
#[derive(tidings::TopicKey)]
pub struct TopicKey;
#[derive(tidings::TopicKey)]
pub enum KeyError {
    KeyReader,
}

fn bind(broker: &tidings::Broker<tidings::backend::Memory>) {
    let _ = Config::topic(broker);
    let _ = Topic::topic(broker);
    let _ = Error::topic(broker);
    let _ = Broker::topic(broker);
    let _ = KeyWriter::topic(broker);
}

fn main() {
    let _ = bind;
}
