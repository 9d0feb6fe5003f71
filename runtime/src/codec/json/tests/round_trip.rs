use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DecodeErrorKind, Json, decode, encode, round_trip};
use crate::codec::Decode as _;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u64,
    name: String,
    ratio: Option<f32>,
    tags: Vec<String>,
    choice: Choice,
    counts: HashMap<i64, u128>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Choice {
    Unit,
    New(i128),
    Tuple(u8, char),
    Struct { a: Option<bool> },
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(8, 256, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..12)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn record() -> impl Strategy<Value = Record> {
    let choice = prop_oneof![
        Just(Choice::Unit),
        any::<i128>().prop_map(Choice::New),
        any::<(u8, char)>().prop_map(|(byte, letter)| Choice::Tuple(byte, letter)),
        any::<Option<bool>>().prop_map(|a| Choice::Struct { a }),
    ];
    let counts = prop::collection::hash_map(any::<i64>(), any::<u128>(), 0..40);
    let tags = prop::collection::vec(any::<String>(), 0..4);
    (any::<(u64, String)>(), prop::option::of(prop::num::f32::NORMAL), tags, choice, counts)
        .prop_map(|((id, name), ratio, tags, choice, counts)| Record { id, name, ratio, tags, choice, counts })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn f64_bits(bits: u64) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        prop_assert_eq!(decode::<f64>(encode(&number).unwrap()).unwrap().to_bits(), bits);
    }

    #[test]
    fn f32_bits(bits: u32) {
        let number = f32::from_bits(bits);
        prop_assume!(number.is_finite());
        prop_assert_eq!(decode::<f32>(encode(&number).unwrap()).unwrap().to_bits(), bits);
    }

    #[test]
    fn subnormals(bits in 0_u64..1 << 52, negative: bool) {
        let number = f64::from_bits(bits | u64::from(negative) << 63);
        prop_assert_eq!(decode::<f64>(encode(&number).unwrap()).unwrap().to_bits(), number.to_bits());
    }

    #[test]
    fn integers(small: i128, large: u128, word: u64) {
        round_trip(&(small, large, word));
    }

    #[test]
    fn strings(text: String, letter: char) {
        let json = round_trip(&(text.as_str().to_owned(), letter));
        prop_assert_eq!(json, serde_json::to_string(&(&text, letter)).unwrap());
    }

    #[test]
    fn maps(map: BTreeMap<String, String>) {
        round_trip(&map);
    }

    #[test]
    fn values(value in value()) {
        let json = round_trip(&value);
        prop_assert_eq!(json, serde_json::to_string(&value).unwrap());
    }

    #[test]
    fn records(record in record()) {
        round_trip(&record);
    }

    /// Whatever bytes come, there is a value or an error.
    #[test]
    fn garbage_is_refused(bytes: Vec<u8>) {
        let _ = Json::decode(&bytes).map(|value: Value| encode(&value).unwrap());
        let _ = Json::decode(&bytes).map(|record: Record| encode(&record).unwrap());
    }

    /// A good payload with one byte changed has a value or an error, and what has a value can be written again.
    #[test]
    fn damage_is_refused(record in record(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encode(&record).unwrap().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(record) = Json::decode(&bytes) {
            encode::<Record>(&record).unwrap();
        }
    }

    /// A payload that ends early is never a value.
    #[test]
    fn truncation_is_refused(record in record(), at: prop::sample::Index) {
        let bytes = encode(&record).unwrap().into_bytes();
        let error = <Json as crate::codec::Decode<Record>>::decode(&bytes[..at.index(bytes.len())]).unwrap_err();
        // A map's key that should be a number and ends early is no number yet.
        let expected = [DecodeErrorKind::Syntax, DecodeErrorKind::InvalidUnicode, DecodeErrorKind::Mismatch];
        prop_assert!(expected.contains(&error.kind()), "{}", error);
    }
}
