//! The declaration: what goes into the stream, under which name and version, and which key orders it.

use serde::{Deserialize, Serialize};
use tidings::stream_spec;
use tidings_examples::{Quake, hundredths};

/// An earthquake, as it is booked.
///
/// Workers share the stream and acknowledge entry by entry, which takes ack groups; an append that is repeated must not
/// count twice, which takes deduplication. On a backend without either, binding it doesn't compile.
#[stream_spec(name = "quakes.recorded", version = 1, key(network), requires(ack_groups, dedup))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuakeRecorded {
    /// The event's id in the feed, which is the record's too.
    pub(crate) event: String,
    /// The reporting network, such as `ak` for Alaska.
    pub(crate) network: String,
    /// The magnitude in hundredths, since sums of floats depend on the order. Negative for the smallest, unknown for some.
    pub(crate) hundredths: Option<i64>,
}

impl From<Quake> for QuakeRecorded {
    fn from(quake: Quake) -> Self {
        let Quake { id, network, magnitude, .. } = quake;
        Self { event: id, network, hundredths: magnitude.map(hundredths) }
    }
}
