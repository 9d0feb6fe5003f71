//! What the suite appends.

use serde::{Deserialize, Serialize};

use crate::conformance::payloads::Place;
use crate::{stream_spec, topic};

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident($stream:literal, $version:literal, $key:ty);)+) => {
        $(
            $(#[$doc])*
            #[stream_spec(name = $stream, version = $version, key = $key, crate = crate)]
            #[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
            pub(in crate::conformance) struct $name {
                pub(in crate::conformance) n: u64,
            }
        )+
    };
}

entries! {
    /// Keyed by a number.
    Entry("conformance.entry", 1, u64);
    /// The next version of the same.
    EntryV2("conformance.entry", 2, u64);
    /// Another stream.
    Other("conformance.other", 1, u64);
    /// Keyed by a text.
    Sheet("conformance.sheet", 1, String);
    /// Keyed by a place.
    Spot("conformance.spot", 1, Place);
    /// Without a key.
    Row("conformance.row", 1, ());
}

/// Another type under the name and version of [`Entry`].
#[stream_spec(name = "conformance.entry", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize)]
pub(in crate::conformance) struct Impostor {}

/// Where others write.
#[stream_spec(name = "conformance.legacy", version = 1, address = "legacy-orders", crate = crate)]
#[derive(Serialize, Deserialize)]
pub(in crate::conformance) struct Legacy {}

/// Another name for the same place.
#[stream_spec(name = "conformance.relic", version = 1, address = "legacy-orders", crate = crate)]
#[derive(Serialize, Deserialize)]
pub(in crate::conformance) struct Relic {}

/// A topic and a stream of one name and version.
#[topic(name = "conformance.both", version = 1, key = u64, crate = crate)]
#[stream_spec(name = "conformance.both", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(in crate::conformance) struct Both {
    pub(in crate::conformance) n: u64,
}

/// An entry whose size can be chosen.
#[stream_spec(name = "conformance.page", version = 1, key = u64, crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(in crate::conformance) struct Page {
    pub(in crate::conformance) text: String,
}

impl Page {
    pub(in crate::conformance) fn of(bytes: usize) -> Self {
        Self { text: "x".repeat(bytes) }
    }
}

/// An entry that holds its own key.
#[stream_spec(name = "conformance.booking", version = 1, key(tenant, room), crate = crate)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(in crate::conformance) struct Booking {
    pub(in crate::conformance) tenant: String,
    pub(in crate::conformance) room: u32,
}
