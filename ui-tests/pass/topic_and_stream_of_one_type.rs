//! A type can be a topic and a stream, in either order, above and below derives.
#![deny(warnings)]

use serde::{Deserialize, Serialize};
use tidings::prelude::*;
use tidings::{Broker, StreamSpec as _, stream_spec, topic};
use ui_tests::LogOnly;

#[topic(name = "orders.placed", version = 1, key(region, order))]
#[stream_spec(name = "orders.placed", version = 2, key(order))]
#[derive(Serialize, Deserialize)]
struct Above {
    region: String,
    order: u64,
}

#[derive(Serialize, Deserialize)]
#[stream_spec(name = "orders.sent", version = 1, key(region), requires(ack_groups))]
#[topic(name = "orders.sent", version = 1, key(region))]
struct Below {
    region: String,
}

async fn uses(logs: &Broker<LogOnly>, topics: &Broker<ui_tests::NoPatterns>, units: &Broker<ui_tests::NoUnits>) {
    let above = Above { region: String::new(), order: 1 };
    let _ = Above::topic(topics).unwrap().publish(&above).await;
    let _ = Above::stream(logs).unwrap().append(&above).await;
    let _ = above.append(logs).await;
    let _ = above.publish(topics).await;
    let below = Below { region: String::new() };
    let stream = Below::stream(units).unwrap();
    let _ = stream.append(&below).await;
    let _ = stream.ack_group("a").unwrap();
    let _ = below.append(units).await;
}

fn main() {
    let _ = uses;
    let above = Above { region: "eu".to_owned(), order: 1 };
    assert_eq!(above.topic_key(), AboveKey { region: "eu".to_owned(), order: 1 });
    assert_eq!(above.stream_key(), AboveStreamKey { order: 1 });
    assert_eq!(<Above as tidings::TopicSpec>::DECLARATION.to_string(), "orders.placed.v1");
    assert_eq!(<Above as tidings::StreamSpec>::DECLARATION.to_string(), "orders.placed.v2");
    assert_eq!(<Above as tidings::StreamSpec>::REQUIRES, []);
    assert_eq!(Below::REQUIRES, [tidings::capability::Capability::AckGroups]);
    assert_eq!(BelowKey { region: String::new() }.region, BelowStreamKey { region: String::new() }.region);
}
