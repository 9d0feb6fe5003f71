//! The declaration: what goes over the wire, under which name and version, and which key selects a channel.

use serde::{Deserialize, Serialize};
use tidings::{TopicKey, topic};
use tidings_examples::Quake;

/// An earthquake was reported.
///
/// The key is made of two of its own fields, network first, so that one network's events can be followed by prefix.
#[topic(name = "quakes.reported", version = 1, key(network, band))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuakeReported {
    /// The position in the journal. A follower that reads the journal after a gap knows by it where to go on.
    pub(crate) sequence: u64,
    /// The event's id in the feed.
    pub(crate) id: String,
    /// The reporting network, such as `ak` for Alaska.
    pub(crate) network: String,
    /// The band that the magnitude lies in.
    pub(crate) band: Band,
    /// The magnitude, which is negative for the smallest and unknown for some.
    pub(crate) magnitude: Option<f64>,
    /// Where it was, in words.
    pub(crate) place: Option<String>,
    /// When it was, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    /// How deep it was.
    pub(crate) depth_km: Option<f64>,
}

/// The sequence is the journal's to give.
impl From<Quake> for QuakeReported {
    fn from(quake: Quake) -> Self {
        let Quake { id, network, magnitude, place, time, depth_km } = quake;
        Self { sequence: 0, id, network, band: Band::of(magnitude), magnitude, place, time, depth_km }
    }
}

/// The usual bands of magnitude. A key can't be a float, and nobody wants to follow exactly 4.37.
#[derive(TopicKey, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Band {
    #[topic_key(rename = "unknown")]
    Unknown,
    /// Below 2.
    #[topic_key(rename = "micro")]
    Micro,
    /// 2 to 4.
    #[topic_key(rename = "minor")]
    Minor,
    /// 4 to 5.
    #[topic_key(rename = "light")]
    Light,
    /// 5 to 6.
    #[topic_key(rename = "moderate")]
    Moderate,
    /// 6 and above.
    #[topic_key(rename = "strong")]
    Strong,
}

impl Band {
    pub(crate) fn of(magnitude: Option<f64>) -> Self {
        match magnitude {
            None => Self::Unknown,
            Some(..2.0) => Self::Micro,
            Some(..4.0) => Self::Minor,
            Some(..5.0) => Self::Light,
            Some(..6.0) => Self::Moderate,
            Some(_) => Self::Strong,
        }
    }
}
