//! The declarations: what comes in, and what goes out.

use serde::{Deserialize, Serialize};
use tidings::stream_spec;
use tidings_examples::{Account, Quake, hundredths};

/// An earthquake on its way into the warehouse.
///
/// Members share its partitions and commit a position in each, as one unit with what they make of it. On a backend without
/// either, binding it doesn't compile.
#[stream_spec(name = "quakes.delivered", version = 1, key(network), requires(commit_groups, transactions))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuakeDelivered {
    /// The reporting network, such as `ak` for Alaska.
    pub(crate) network: String,
    /// The magnitude in hundredths; unknown for some.
    pub(crate) hundredths: Option<i64>,
}

/// What a page of one network's earthquakes adds up to.
#[stream_spec(name = "quakes.counted", version = 1, key(network))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuakesCounted {
    pub(crate) network: String,
    pub(crate) account: Account,
    /// Who counted.
    pub(crate) member: String,
}

impl From<Quake> for QuakeDelivered {
    fn from(quake: Quake) -> Self {
        Self { network: quake.network, hundredths: quake.magnitude.map(hundredths) }
    }
}
