//! Reads the feed: a geographic collection in JSON, of which most properties may be missing.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::Failure;
use crate::quake::{Band, QuakeReported};

/// A feed that was read.
pub(crate) struct Feed {
    /// The events to publish, the oldest first.
    pub(crate) quakes: Vec<QuakeReported>,
    /// The file as plain JSON, for a check that shares nothing with the types.
    pub(crate) plain: Value,
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
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let within = |wrong: &dyn std::fmt::Display| format!("can't read the feed `{}`: {wrong}", path.display());
        let text = fs::read_to_string(path).map_err(|wrong| within(&wrong))?;
        let collection: Collection = serde_json::from_str(&text).map_err(|wrong| within(&wrong))?;
        let plain = serde_json::from_str(&text).map_err(|wrong| within(&wrong))?;
        let mut quakes: Vec<_> = collection.features.into_iter().map(Feature::into_event).collect();
        if quakes.is_empty() {
            return Err(within(&"there is no event in it").into());
        }
        // The feed has the newest first.
        quakes.sort_by_key(|quake| quake.time);
        Ok(Self { quakes, plain })
    }
}

impl Feature {
    fn into_event(self) -> QuakeReported {
        let Properties { net, mag, place, time } = self.properties;
        let depth_km = self.geometry.and_then(|point| point.coordinates.get(2).copied().flatten());
        // The sequence is the journal's to give.
        QuakeReported {
            sequence: 0,
            id: self.id,
            network: net,
            band: Band::of(mag),
            magnitude: mag,
            place,
            time,
            depth_km,
        }
    }
}
