//! The fields in `key(..)` are Rust's, whatever serde's attributes say.
#![deny(warnings)]

use serde::{Deserialize, Serialize};
use tidings::{SelfKeyed, stream_spec, topic};

#[topic(name = "orders.placed", version = 1, key(user_id, r#type, skipped))]
#[stream_spec(name = "orders.placed", version = 1, key(user_id, r#type, skipped))]
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPlaced {
    pub user_id: u64,
    #[serde(rename = "t")]
    pub r#type: String,
    #[serde(skip)]
    pub skipped: u8,
    #[serde(alias = "u")]
    pub v: u8,
}

fn main() {
    let placed = OrderPlaced { user_id: 1, r#type: "a".to_owned(), skipped: 3, v: 4 };
    assert_eq!(placed.topic_key(), OrderPlacedKey { user_id: 1, r#type: "a".to_owned(), skipped: 3 });
}
