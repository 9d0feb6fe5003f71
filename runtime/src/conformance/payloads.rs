//! What the suite publishes.

use serde::{Deserialize, Serialize};

use crate::{TopicKey, topic};

macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident($topic:literal, $version:literal, $key:ty);)+) => {
        $(
            $(#[$doc])*
            #[topic(name = $topic, version = $version, key = $key, crate = crate)]
            #[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
            pub(super) struct $name {
                pub(super) n: u64,
            }

            impl From<u64> for $name {
                fn from(n: u64) -> Self {
                    Self { n }
                }
            }
        )+
    };
}

payloads! {
    /// One channel for each number.
    Tick("conformance.tick", 1, u64);
    /// The next version of the same.
    TickV2("conformance.tick", 2, u64);
    /// A name below it.
    TickMore("conformance.tick.more", 1, u64);
    /// One channel for each text.
    Note("conformance.note", 1, String);
    /// One channel.
    Whole("conformance.whole", 1, ());
    /// One channel for each place.
    Visit("conformance.visit", 1, Place);
    /// One channel for each character.
    Glyph("conformance.glyph", 1, char);
    /// Two channels.
    Flag("conformance.flag", 1, bool);
    /// One channel for each signed number.
    Depth("conformance.depth", 1, i64);
}

/// Another type under the name and version of [`Tick`].
#[topic(name = "conformance.tick", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize)]
pub(super) struct Impostor {}

/// A payload whose size can be chosen.
#[topic(name = "conformance.text", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
}

impl Text {
    pub(super) fn of(bytes: usize) -> Self {
        Self { text: "x".repeat(bytes) }
    }
}

/// A payload that holds its own key.
#[topic(name = "conformance.stay", version = 1, key(tenant, room), crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) tenant: String,
    pub(super) room: u32,
}

/// A key of three parts.
#[derive(TopicKey, Clone, Debug, PartialEq, Eq)]
#[topic_key(crate = crate)]
pub(super) struct Place {
    pub(super) tenant: String,
    pub(super) floor: i32,
    pub(super) room: String,
}

impl Place {
    pub(super) fn new(tenant: &str, floor: i32, room: &str) -> Self {
        Self { tenant: tenant.to_owned(), floor, room: room.to_owned() }
    }
}
