use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a record stands in a stream: its partition and its offset there.
///
/// Opaque and ordered within a partition; positions of two partitions don't compare. It prints as `partition:offset`,
/// where an offset of two halves (a Redis id) is `high-low`, parses back from that, and serializes as that text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    partition: u32,
    offset: u128,
}

impl Position {
    /// Makes a position. Offsets of one partition rise.
    #[must_use]
    pub const fn new(partition: u32, offset: u128) -> Self {
        Self { partition, offset }
    }

    /// Makes a position whose offset has two halves, as a Redis id has.
    #[must_use]
    pub const fn of_halves(partition: u32, high: u64, low: u64) -> Self {
        Self { partition, offset: (high as u128) << 64 | low as u128 }
    }

    /// Returns the partition, from 0.
    #[must_use]
    pub const fn partition(self) -> u32 {
        self.partition
    }

    /// Returns the offset.
    #[must_use]
    pub const fn offset(self) -> u128 {
        self.offset
    }

    /// Returns the offset's two halves.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    pub const fn halves(self) -> (u64, u64) {
        ((self.offset >> 64) as u64, self.offset as u64)
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.partition == other.partition).then(|| self.offset.cmp(&other.offset))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.halves() {
            (0, low) => write!(f, "{}:{low}", self.partition),
            (high, low) => write!(f, "{}:{high}-{low}", self.partition),
        }
    }
}

/// As it prints, which is what the broker's own tools show.
impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that isn't a position or a list of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {0}; write `partition:offset` or `partition:high-low` in decimal{1}")]
pub struct PositionError(&'static str, &'static str);

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let parsed = || {
            let (partition, offset) = text.split_once(':')?;
            let partition = partition.parse().ok()?;
            let position = match offset.split_once('-') {
                Some((high, low)) => Self::of_halves(partition, high.parse().ok()?, low.parse().ok()?),
                None => Self::new(partition, u128::from(offset.parse::<u64>().ok()?)),
            };
            // Leading zeros and signs would make two texts of one position.
            (position.to_string() == text).then_some(position)
        };
        parsed().ok_or(PositionError("a position", ""))
    }
}

/// Positions in a stream, at most one a partition. Printed joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Positions {
    offsets: BTreeMap<u32, u128>,
}

impl Positions {
    /// Makes an empty set: before the first record of every partition.
    #[must_use]
    pub const fn new() -> Self {
        Self { offsets: BTreeMap::new() }
    }

    /// Returns the position in a partition.
    #[must_use]
    pub fn get(&self, partition: u32) -> Option<Position> {
        self.offsets.get(&partition).map(|offset| Position::new(partition, *offset))
    }

    /// Sets the position of its partition, where it is higher than what stands there.
    pub fn advance(&mut self, to: Position) {
        let offset = self.offsets.entry(to.partition).or_insert(to.offset);
        *offset = to.offset.max(*offset);
    }

    /// Removes a partition's position: what follows is its beginning.
    pub fn remove(&mut self, partition: u32) {
        self.offsets.remove(&partition);
    }

    /// Iterates over the positions by partition.
    pub fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        self.into_iter()
    }

    /// Says whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

impl From<Position> for Positions {
    fn from(position: Position) -> Self {
        [position].into_iter().collect()
    }
}

/// Keeps the highest position of each partition.
impl FromIterator<Position> for Positions {
    fn from_iter<I: IntoIterator<Item = Position>>(positions: I) -> Self {
        let mut all = Self::new();
        all.extend(positions);
        all
    }
}

impl Extend<Position> for Positions {
    fn extend<I: IntoIterator<Item = Position>>(&mut self, positions: I) {
        positions.into_iter().for_each(|position| self.advance(position));
    }
}

/// By partition.
impl IntoIterator for Positions {
    type Item = Position;
    type IntoIter = std::iter::Map<btree_map::IntoIter<u32, u128>, fn((u32, u128)) -> Position>;

    fn into_iter(self) -> Self::IntoIter {
        self.offsets.into_iter().map(|(partition, offset)| Position::new(partition, offset))
    }
}

/// By partition.
impl<'a> IntoIterator for &'a Positions {
    type Item = Position;
    type IntoIter = std::iter::Map<btree_map::Iter<'a, u32, u128>, fn((&'a u32, &'a u128)) -> Position>;

    fn into_iter(self) -> Self::IntoIter {
        self.offsets.iter().map(|(partition, offset)| Position::new(*partition, *offset))
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, position) in self.iter().enumerate() {
            write!(f, "{}{position}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Positions {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let wrong = PositionError("a list of positions, at most one a partition", ", joined by commas");
        let mut positions = Self::new();
        for position in text.split(',').filter(|_| !text.is_empty()) {
            let position: Position = position.parse().map_err(|_| wrong)?;
            if positions.offsets.insert(position.partition, position.offset).is_some() {
                return Err(wrong);
            }
        }
        Ok(positions)
    }
}

macro_rules! as_text {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

as_text!(Position, Positions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_print_parse_and_serialize_as_one_text() {
        for text in ["0:0", "3:17", "0:1526919030474-0", "4294967295:18446744073709551615-18446744073709551615"] {
            let position: Position = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
            let json = serde_json::to_string(&position).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position);
        }
        for text in
            ["", "1", ":", "0:", ":0", "0:-1", "00:1", "0:01", "0:+1", "0:0-1", "0:1-01", "0:1-2-3", "-1:0", "0 :1"]
        {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    #[test]
    fn positions_compare_within_a_partition_alone() {
        assert!(Position::of_halves(0, 1, 9) < Position::of_halves(0, 2, 0));
        assert_eq!(Position::new(0, 1).partial_cmp(&Position::new(1, 2)), None);
    }

    #[test]
    fn a_list_holds_the_highest_position_of_each_partition() {
        let list: Positions = [Position::new(1, 5), Position::new(0, 2), Position::new(1, 3)].into_iter().collect();
        assert_eq!(list.to_string(), "0:2,1:5");
        assert_eq!("0:2,1:5".parse::<Positions>().unwrap(), list);
        let inside = [Position::new(0, 2), Position::new(1, 5)];
        assert_eq!((&list).into_iter().collect::<Vec<_>>(), inside);
        assert_eq!(list.clone().into_iter().collect::<Vec<_>>(), inside);
        assert_eq!("".parse::<Positions>().unwrap(), Positions::new());
        for text in ["0:1,0:2", ",", "0:1,", "0:1;1:2"] {
            assert!(text.parse::<Positions>().is_err(), "{text}");
        }
    }
}
