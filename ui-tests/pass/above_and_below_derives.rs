//! The order of the attribute and the derives makes no difference.
#![deny(warnings)]

use serde::{Deserialize, Serialize};
use tidings::{Broker, backend::Memory, stream_spec, topic};

#[topic(name = "a", version = 1, key(order))]
#[stream_spec(name = "a", version = 1, key(order))]
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Above {
    #[serde(rename = "n")]
    pub order: u64,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[stream_spec(name = "b", version = 1, key(order))]
#[topic(name = "b", version = 1, key(order))]
pub struct Below {
    #[serde(rename = "n")]
    pub order: u64,
}

#[derive(Serialize, Deserialize)]
#[topic(name = "c", version = 1)]
#[stream_spec(name = "c", version = 1)]
#[derive(Clone, Debug)]
pub struct Between;

async fn uses(broker: &Broker<Memory>) {
    let _ = Above::topic(broker).unwrap().publish(&Above { order: 1 }).await;
    let _ = Below::topic(broker).unwrap().publish(&Below { order: 1 }).await;
    let _ = Between::topic(broker).unwrap().publish(&(), &Between).await;
}

fn main() {
    let _ = uses;
}
