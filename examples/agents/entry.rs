//! The declaration: what goes into the stream, under which name and version, and which key it has.

use serde::{Deserialize, Serialize};
use tidings::stream_spec;
use tidings_examples::{Quake, hundredths};

/// An earthquake, as it is reported.
///
/// Agents and modules each have a durable of their own, which takes cursors. On a backend without them, binding it doesn't
/// compile. The network comes first in the key, so that a durable can be of one network's alone.
#[stream_spec(name = "quakes.reported", version = 1, key(network, event), requires(cursors))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuakeReported {
    /// The reporting network, such as `ak` for Alaska.
    pub(crate) network: String,
    /// The event's id in the feed.
    pub(crate) event: String,
    /// The magnitude in hundredths, since sums of floats depend on the order. Negative for the smallest, unknown for some.
    pub(crate) hundredths: Option<i64>,
}

impl From<Quake> for QuakeReported {
    fn from(quake: Quake) -> Self {
        let Quake { id, network, magnitude, .. } = quake;
        Self { network, event: id, hundredths: magnitude.map(hundredths) }
    }
}
