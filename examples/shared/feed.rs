//! Reads the feed: a geographic collection in JSON, of which most properties may be missing.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::Failure;

/// A feed that was read.
#[derive(Debug)]
pub struct Feed {
    /// The events, the oldest first.
    pub quakes: Vec<Quake>,
    /// The file as plain JSON, for a check that shares nothing with the types.
    pub plain: Value,
}

/// An earthquake, as the feed has it.
#[derive(Clone, Debug)]
pub struct Quake {
    /// Its id, which no other has.
    pub id: String,
    /// The reporting network, such as `ak` for Alaska.
    pub network: String,
    /// The magnitude, which is negative for the smallest and unknown for some.
    pub magnitude: Option<f64>,
    /// Where it was, in words.
    pub place: Option<String>,
    /// When it was, in milliseconds since the Unix epoch.
    pub time: i64,
    /// How deep it was.
    pub depth_km: Option<f64>,
}

#[derive(Deserialize)]
struct Collection {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    id: String,
    properties: Properties,
    geometry: Option<Point>,
}

#[derive(Deserialize)]
struct Properties {
    net: String,
    mag: Option<f64>,
    place: Option<String>,
    time: i64,
}

#[derive(Deserialize)]
struct Point {
    /// Longitude, latitude, and the depth in km where it is known.
    coordinates: Vec<Option<f64>>,
}

impl Feed {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, with its path. A feed without an event is wrong too.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let within = |wrong: &dyn std::fmt::Display| format!("can't read the feed `{}`: {wrong}", path.display());
        let text = fs::read_to_string(path).map_err(|wrong| within(&wrong))?;
        let collection: Collection = serde_json::from_str(&text).map_err(|wrong| within(&wrong))?;
        let plain = serde_json::from_str(&text).map_err(|wrong| within(&wrong))?;
        let mut quakes: Vec<_> = collection.features.into_iter().map(Feature::into_quake).collect();
        if quakes.is_empty() {
            return Err(within(&"there is no event in it").into());
        }
        // The feed has the newest first.
        quakes.sort_by_key(|quake| quake.time);
        Ok(Self { quakes, plain })
    }
}

impl Feature {
    fn into_quake(self) -> Quake {
        let Properties { net, mag, place, time } = self.properties;
        let depth_km = self.geometry.and_then(|point| point.coordinates.get(2).copied().flatten());
        Quake { id: self.id, network: net, magnitude: mag, place, time, depth_km }
    }
}
