//! Works out from the plain file what everyone should have, and compares. It knows nothing of keys and bands.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::difference::difference;
use crate::follow::{Follower, Interest};
use crate::quake::{Band, QuakeReported};
use crate::run::Outcome;

/// One network's line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) events: usize,
    pub(crate) strongest: Option<f64>,
    pub(crate) place: String,
}

/// The table, by network.
pub(crate) type Table = BTreeMap<String, Line>;

/// What the run was worth.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The table of what was received.
    pub(crate) table: Table,
    /// Everything that isn't as it should be.
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Judges a run by the file that it was made from.
pub(crate) fn verdict(plain: &Value, outcome: &Outcome) -> Verdict {
    let mut faults = Vec::new();
    let mut table = Table::new();
    let features = oldest_first(plain);
    for follower in &outcome.followers {
        let seen = follower.seen();
        let wanted: Vec<&str> = features.iter().filter(|feature| wants(follower, feature)).map(|one| id(one)).collect();
        let got: Vec<&str> = seen.quakes.iter().map(|quake| &*quake.id).collect();
        if let Some(fault) = difference(&wanted, &got) {
            faults.push(format!("{}: {fault}", follower.interest));
        }
        if outcome.cut && seen.gaps.is_empty() {
            faults.push(format!("{}: the connection was cut, and no gap was told", follower.interest));
        }
        if matches!(follower.interest, Interest::Everything) {
            table = tabulate(seen.quakes.iter().map(line_of));
        }
    }
    if table != tabulate(features.iter().map(|feature| plain_line_of(feature))) {
        faults.push("the table differs from the one that the file gives".to_owned());
    }
    Verdict { table, faults }
}

fn oldest_first(plain: &Value) -> Vec<&Value> {
    let mut features: Vec<_> = plain["features"].as_array().into_iter().flatten().collect();
    features.sort_by_key(|feature| feature["properties"]["time"].as_i64());
    features
}

fn id(feature: &Value) -> &str {
    feature["id"].as_str().unwrap_or_default()
}

fn wants(follower: &Follower, feature: &Value) -> bool {
    let (network, magnitude) = (&feature["properties"]["net"], &feature["properties"]["mag"]);
    match &follower.interest {
        Interest::Key(key) => *network == *key.network && plain_band(magnitude.as_f64()) == key.band,
        Interest::Network(wanted) => network == wanted,
        Interest::Everything => true,
    }
}

/// The bands once more, from their definition: by the whole number below the magnitude.
#[allow(clippy::cast_possible_truncation)] // Magnitudes are small.
fn plain_band(magnitude: Option<f64>) -> Band {
    match magnitude.map(|magnitude| magnitude.floor() as i64) {
        None => Band::Unknown,
        Some(..=1) => Band::Micro,
        Some(2 | 3) => Band::Minor,
        Some(4) => Band::Light,
        Some(5) => Band::Moderate,
        Some(6..) => Band::Strong,
    }
}

fn line_of(quake: &QuakeReported) -> (&str, Option<f64>, Option<&str>) {
    (&quake.network, quake.magnitude, quake.place.as_deref())
}

fn plain_line_of(feature: &Value) -> (&str, Option<f64>, Option<&str>) {
    let properties = &feature["properties"];
    (properties["net"].as_str().unwrap_or_default(), properties["mag"].as_f64(), properties["place"].as_str())
}

/// Counts each network's events and finds its strongest, the oldest of several.
fn tabulate<'a>(events: impl Iterator<Item = (&'a str, Option<f64>, Option<&'a str>)>) -> Table {
    let mut table = Table::new();
    for (network, magnitude, place) in events {
        let line = table.entry(network.to_owned()).or_insert(Line { events: 0, strongest: None, place: String::new() });
        line.events += 1;
        if line.events == 1 || magnitude > line.strongest {
            line.strongest = magnitude;
            place.unwrap_or("unknown").clone_into(&mut line.place);
        }
    }
    table
}
