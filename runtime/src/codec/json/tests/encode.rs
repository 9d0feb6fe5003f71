use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, json};

use super::{Encode as _, EncodeErrorKind as Kind, Json, encode, on_small_stack, refused, round_trip};

/// Writes the given entries as a map, whatever they are.
struct Entries(Vec<(String, u8)>);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn entries(keys: impl IntoIterator<Item = impl ToString>) -> Entries {
    Entries(keys.into_iter().map(|key| (key.to_string(), 0)).collect())
}

/// C01: 128-bit integers keep their digits.
#[test]
fn integers_of_128_bits_are_exact() {
    assert_eq!(round_trip(&u128::MAX), "340282366920938463463374607431768211455");
    assert_eq!(round_trip(&i128::MIN), "-170141183460469231731687303715884105728");
    round_trip(&HashMap::from([(u128::MAX, i128::MIN)]));
}

/// C06: an `f32` isn't widened.
#[test]
fn f32_text_is_short() {
    assert_eq!(round_trip(&0.1_f32), "0.1");
    assert_eq!(round_trip(&vec![0.1_f32, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX]).split(',').next(), Some("[0.1"));
}

#[test]
fn nan_and_infinities_are_refused_everywhere() {
    #[derive(Serialize)]
    struct Inner {
        x: f64,
    }
    #[derive(Serialize)]
    struct Flat {
        #[serde(flatten)]
        inner: Inner,
    }
    #[derive(Serialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        One(Inner),
        Two { y: f32 },
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Untagged {
        One(f32),
    }
    #[derive(Serialize)]
    #[serde(tag = "kind", content = "data")]
    enum Adjacent {
        One(f64, f64),
    }

    struct FloatKey(f64);
    impl Serialize for FloatKey {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([(self.0, 1)])
        }
    }

    for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        #[expect(clippy::cast_possible_truncation, reason = "all of them stay what they are")]
        let y = x as f32;
        let kinds = [
            refused(&x),
            refused(&y),
            refused(&Some(x)),
            refused(&[[x]]),
            refused(&BTreeMap::from([("k", y)])),
            refused(&Inner { x }),
            refused(&Flat { inner: Inner { x } }),
            refused(&Tagged::One(Inner { x })),
            refused(&Tagged::Two { y }),
            refused(&Untagged::One(y)),
            refused(&Adjacent::One(0.0, x)),
        ];
        assert!(kinds.iter().all(|kind| *kind == Kind::NotFinite), "{kinds:?}");
    }
    assert_eq!(refused(&FloatKey(f64::NAN)), Kind::NotFinite);
    assert_eq!(encode(&FloatKey(0.5)).unwrap(), r#"{"0.5":1}"#);
}

/// C11: a value nested too deep is an error, long before the stack ends.
#[test]
fn deep_nesting_is_refused() {
    struct Deep(usize);
    impl Serialize for Deep {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0 == 0 { serializer.serialize_unit() } else { serializer.collect_seq([Deep(self.0 - 1)]) }
        }
    }
    #[derive(Serialize)]
    enum Chain {
        End,
        Next { next: Box<Chain> },
    }

    assert!(encode(&Deep(127)).is_ok());
    let error = encode(&Deep(128)).unwrap_err();
    let long = "[0]".repeat(8);
    assert_eq!((error.kind(), error.path()), (Kind::TooDeep, format!("{long}...{long}").as_str()));
    on_small_stack(|| assert_eq!(refused(&Deep(10_000)), Kind::TooDeep));

    // A struct variant is an object in an object, which takes two levels of a reader's.
    let chain = |len: usize| (0..len).fold(Chain::End, |next, _| Chain::Next { next: Box::new(next) });
    assert!(encode(&chain(63)).is_ok());
    assert_eq!(refused(&chain(64)), Kind::TooDeep);
}

/// C13: a newtype variant's own field of the tag's name would write the tag twice.
#[test]
fn repeated_tag_is_refused() {
    #[derive(Serialize)]
    struct In {
        kind: String,
    }
    #[derive(Serialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        V(In),
    }
    let error = encode(&[Tagged::V(In { kind: "secret".into() })]).unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::DuplicateKey, "[0].kind"));
    assert!(!format!("{error}{error:?}").contains("secret"));
}

#[test]
fn repeated_names_are_refused() {
    #[derive(Serialize)]
    struct Renamed {
        a: u8,
        #[serde(rename = "a")]
        b: u8,
    }
    #[derive(Serialize)]
    struct Flat {
        a: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    assert_eq!(refused(&Renamed { a: 1, b: 2 }), Kind::DuplicateKey);
    assert_eq!(refused(&Flat { a: 1, rest: BTreeMap::from([("a".into(), 2)]) }), Kind::DuplicateKey);
    assert_eq!(encode(&Flat { a: 1, rest: BTreeMap::from([("b".into(), 2)]) }).unwrap(), r#"{"a":1,"b":2}"#);
}

#[test]
fn repeated_keys_are_refused_in_small_and_large_maps() {
    for len in [2, 15, 16, 17, 18, 40, 1_000] {
        for order in [(0..len).collect::<Vec<u32>>(), (0..len).rev().collect()] {
            assert!(encode(&entries(&order)).is_ok(), "{len}");
            for repeated in [order[0], order[order.len() / 2], order[order.len() - 1]] {
                let keys = order.iter().copied().chain([repeated]);
                assert_eq!(refused(&entries(keys)), Kind::DuplicateKey, "{len} {repeated}");
            }
        }
    }
    assert_eq!(refused(&entries(["\"\\", "a", "\"\\"])), Kind::DuplicateKey);
    assert!(encode(&entries(["a", "ab", "a\"", "a\\", ""])).is_ok());
}

#[test]
fn objects_in_objects_have_their_own_keys() {
    let wide = json!(
        (0..50).map(|key| (format!("k{key}"), json!({"k0": {"k0": 1, "a": 2}, "k1": 1}))).collect::<BTreeMap<_, _>>()
    );
    round_trip(&wide);
    round_trip(&json!([{"a": 1}, {"a": 1}]));
}

#[test]
fn keys_that_are_not_text_are_refused() {
    assert_eq!(refused(&BTreeMap::from([((1, 2), 3)])), Kind::KeyNotText);
    assert_eq!(refused(&BTreeMap::from([(None::<u8>, 3)])), Kind::KeyNotText);
    assert_eq!(refused(&entries(["$serde_json::private::Number"])), Kind::ReservedKey);
    assert_eq!(encode(&BTreeMap::from([(true, 'x')])).unwrap(), r#"{"true":"x"}"#);
}

/// C20: the limit is checked while writing.
#[test]
fn limit_is_exact_and_early() {
    let mut payload = Vec::new();
    for text in ["", "abc", "\"\\\n", "é\u{1f600}"] {
        let full = encode(&[text]).unwrap().len();
        payload.clear();
        assert!(Json::encode(&[text], &mut payload, full).is_ok());
        let before = payload.len();
        let error = Json::encode(&[text], &mut payload, full - 1).unwrap_err();
        assert_eq!((error.kind(), payload.len()), (Kind::TooLarge { limit: full - 1 }, before));
    }
    assert!(Json::encode(&1, &mut payload, 0).is_err());

    let large = "x".repeat(10 << 20);
    let mut payload = Vec::new();
    let million: BTreeMap<u32, u32> = (0..1_000_000).map(|key| (key, key)).collect();
    assert!(Json::encode(&large, &mut payload, 64 << 10).is_err());
    assert!(Json::encode(&million, &mut payload, 64 << 10).is_err());
    assert!(Json::encode(&vec![0_u8; 10 << 20], &mut payload, 64 << 10).is_err());
    assert!(Json::encode(&format_args!("{large}"), &mut payload, 64 << 10).is_err());
    assert!(payload.is_empty() && payload.capacity() < 256 << 10, "{}", payload.capacity());
    assert!(Json::encode(&million, &mut payload, 64 << 20).is_ok());
}

/// C22: a time before 1970 is an error of the type's own.
#[test]
fn time_before_1970_is_refused() {
    let early = std::time::UNIX_EPOCH - std::time::Duration::from_secs(1);
    let error = encode(&BTreeMap::from([("at", early)])).unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::Refused, "*"));
}

#[test]
fn displayed_text_is_escaped() {
    struct Shown;
    impl std::fmt::Display for Shown {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            ["a", "\"", "é\n", ""].iter().try_for_each(|piece| f.write_str(piece))
        }
    }
    struct Failing;
    impl std::fmt::Display for Failing {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            Err(std::fmt::Error)
        }
    }
    struct Collected<T>(T);
    impl<T: std::fmt::Display> Serialize for Collected<T> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&self.0)
        }
    }
    assert_eq!(encode(&Collected(Shown)).unwrap(), r#""a\"é\n""#);
    assert_eq!(refused(&Collected(Failing)), Kind::Refused);
}

#[test]
fn path_names_the_field() {
    #[derive(Serialize)]
    struct Order {
        items: Vec<Item>,
    }
    #[derive(Serialize)]
    struct Item {
        prices: BTreeMap<String, Option<f64>>,
    }
    let item = |price| Item { prices: BTreeMap::from([("secret".into(), Some(price))]) };
    let error = encode(&Order { items: vec![item(1.0), item(f64::NAN)] }).unwrap_err();
    assert_eq!(error.path(), "items[1].prices.*");
    assert_eq!(
        error.to_string(),
        "`items[1].prices.*`: the number is NaN or infinite; send an `Option` and `None` in its place"
    );
}

#[test]
fn text_is_the_same_as_serde_json_writes() {
    #[derive(Serialize)]
    enum All {
        Unit,
        New(u8),
        Tuple(u8, char),
        Struct { r#type: Option<()>, empty: [u8; 0] },
    }
    let all = [All::Unit, All::New(1), All::Tuple(2, '"'), All::Struct { r#type: None, empty: [] }];
    let value: Value = json!({"a\"b": [1.5, -0.0, null, true, {}, []], "\u{1}": "\u{7f}\u{1f}/é"});
    assert_eq!(encode(&all).unwrap(), serde_json::to_string(&all).unwrap());
    assert_eq!(encode(&value).unwrap(), serde_json::to_string(&value).unwrap());
}

/// `serde_json` writes a `RawValue` and a number that keeps its text as structs with these names.
#[test]
fn verbatim_json_is_copied_once_it_is_checked() {
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::RawValue")]
    struct Raw {
        #[serde(rename = "$serde_json::private::RawValue")]
        text: String,
    }
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::Number")]
    struct Number {
        #[serde(rename = "$serde_json::private::Number")]
        text: &'static str,
    }
    let raw = |text: &str| [Raw { text: text.to_owned() }];
    assert_eq!(encode(&raw(r#" {"a" : "\n", "b":1.50} "#)).unwrap(), r#"[ {"a" : "\n", "b":1.50} ]"#);
    assert_eq!(refused(&raw(r#"{"a":1,"a":2}"#)), Kind::DuplicateKey);
    assert_eq!(refused(&raw(&("[".repeat(127) + &"]".repeat(127)))), Kind::TooDeep);
    assert_eq!(refused(&raw("1,2")), Kind::Refused, "one value is one value");
    assert_eq!(refused(&raw("")), Kind::Refused);
    assert_eq!(encode(&[Number { text: "1.50" }]).unwrap(), "[1.50]");
    assert_eq!(refused(&[Number { text: "1,2" }]), Kind::Refused);
    assert_eq!(refused(&[Number { text: "-" }]), Kind::Refused);
}
