use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_json::Value;

use super::{DecodeErrorKind as Kind, decode, fails, on_small_stack, round_trip};

#[derive(Debug, PartialEq, Deserialize)]
struct Plain {
    a: u8,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Flat<T> {
    a: u8,
    #[serde(flatten)]
    rest: T,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Inner<T> {
    x: T,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind")]
enum Tagged<T> {
    One { x: T },
}

/// C01: through buffered content 128 bits are exact or refused, never rounded.
#[test]
fn integers_of_128_bits_are_never_rounded() {
    let max = u128::MAX.to_string();
    assert_eq!(decode::<Inner<u128>>(format!(r#"{{"x":{max}}}"#)).unwrap().x, u128::MAX);
    assert_eq!(fails::<Flat<Inner<u128>>>(format!(r#"{{"a":1,"x":{max}}}"#)), Kind::OutOfRange);
    assert_eq!(fails::<Flat<Inner<f64>>>(format!(r#"{{"a":1,"x":[-{max}]}}"#)), Kind::OutOfRange);
    assert_eq!(fails::<Tagged<u128>>(format!(r#"{{"kind":"One","x":{max}}}"#)), Kind::OutOfRange);
    round_trip(&Flat { a: 1, rest: Inner { x: u64::MAX } });
    round_trip(&Tagged::One { x: i64::MIN });
    // A dynamic value keeps the digits if its feature is on, or refuses.
    match decode::<Value>(&max) {
        Ok(value) => assert_eq!(value.to_string(), max),
        Err(error) => assert_eq!(error.kind(), Kind::OutOfRange),
    }
    // Skipped, and written as a float, it harms no one.
    assert_eq!(decode::<Plain>(format!(r#"{{"a":1,"b":[{max}{max}]}}"#)).unwrap(), Plain { a: 1 });
    assert_eq!(decode::<Flat<Inner<f64>>>(r#"{"a":1,"x":1e300}"#).unwrap().rest.x.to_bits(), 1e300_f64.to_bits());
    assert_eq!(decode::<Value>("[1e300,-1e19, 18446744073709551615]").unwrap()[1].as_f64(), Some(-1e19));
}

/// C03: a number in tagged content stays a number when `arbitrary_precision` is on.
#[test]
fn numbers_do_not_turn_into_maps() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Map(HashMap<String, String>),
        Number(f64),
    }
    assert_eq!(decode::<Either>("123").unwrap(), Either::Number(123.0));
    assert_eq!(decode::<Either>("0.10000000000000000001").unwrap(), Either::Number(0.1));
    assert_eq!(decode::<Flat<Inner<f64>>>(r#"{"a":1,"x":1.5}"#).unwrap().rest.x.to_bits(), 1.5_f64.to_bits());
    assert_eq!(decode::<Flat<Inner<f64>>>(r#"{"a":1,"x":-0}"#).unwrap().rest.x.to_bits(), (-0.0_f64).to_bits());
    assert_eq!(decode::<Tagged<u8>>(r#"{"kind":"One","x":7}"#).unwrap(), Tagged::One { x: 7 });
    assert_eq!(decode::<Flat<BTreeMap<String, Value>>>(r#"{"a":1,"x":1.50}"#).unwrap().rest["x"].as_f64(), Some(1.5));
    for token in ["Number", "RawValue"] {
        let forged = format!(r#"{{"$serde_json::private::{token}":"123"}}"#);
        assert_eq!(fails::<Value>(&forged), Kind::ReservedKey);
        assert_eq!(fails::<Either>(&forged), Kind::ReservedKey);
        assert_eq!(fails::<Inner<Value>>(format!(r#"{{"x":{forged}}}"#)), Kind::ReservedKey);
    }
}

/// C04: what an untagged enum does is its order's business; identifiers elsewhere survive.
#[test]
fn identifiers_above_i64_survive() {
    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    #[serde(untagged)]
    enum Number {
        U(u64),
        F(f64),
    }
    round_trip(&u64::MAX);
    round_trip(&Number::U(u64::MAX));
    round_trip(&serde_json::json!({"id": u64::MAX}));
}

/// C08: a number that doesn't fit is a typed error that names the field.
#[test]
fn numbers_out_of_range_name_the_field() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is never read successfully")]
    struct Order {
        items: Vec<Inner<u8>>,
    }
    let error = decode::<Order>(r#"{"items":[{"x":1},{"x":256}]}"#).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.expected()), (Kind::OutOfRange, "items[1].x", Some("u8")));
    assert_eq!((error.line(), error.column()), (1, 27));
    assert!(!error.to_string().contains("256"), "{error}");

    for text in ["1e400", "-1e400", "[1e400]", r#"{"x":1e999}"#] {
        assert_eq!(fails::<IgnoredAny>(text), Kind::OutOfRange, "{text}");
    }
    assert_eq!(fails::<f64>("1e400"), Kind::OutOfRange);
    assert_eq!(fails::<f32>("1e39"), Kind::OutOfRange);
    assert_eq!(fails::<Inner<u64>>(r#"{"x":1.0}"#), Kind::Mismatch);
    assert_eq!(fails::<u8>("-1"), Kind::OutOfRange);
    assert!(matches!(fails::<i64>("-0"), Kind::Mismatch), "`-0` is a float");
    assert_eq!(fails::<u128>("340282366920938463463374607431768211456"), Kind::OutOfRange);
}

/// C11: 127 levels are read, 128 are an error, also where nobody looks.
#[test]
fn deep_nesting_is_refused() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(decode::<Value>(nested(127)).is_ok());
    assert_eq!(fails::<Value>(nested(128)), Kind::TooDeep);
    assert!(decode::<Plain>(format!(r#"{{"a":1,"b":{}}}"#, nested(126))).is_ok());
    assert_eq!(fails::<Plain>(format!(r#"{{"a":1,"b":{}}}"#, nested(127))), Kind::TooDeep);
    on_small_stack(move || {
        assert_eq!(fails::<Value>(nested(10_000)), Kind::TooDeep);
        assert_eq!(fails::<Flat<Value>>(format!(r#"{{"a":1,"b":{}}}"#, nested(10_000))), Kind::TooDeep);
    });
}

/// C15: a byte-order mark has an error of its own.
#[test]
fn byte_order_mark_is_refused() {
    let error = decode::<Value>(b"\xef\xbb\xbf{}").unwrap_err();
    assert_eq!(error.kind(), Kind::ByteOrderMark);
    assert_eq!(error.to_string(), "starts with a byte-order mark; send UTF-8 without one (line 1, column 1)");
}

/// C17: bytes that aren't UTF-8 are refused in every field.
#[test]
fn invalid_unicode_is_refused() {
    assert_eq!(fails::<Plain>(b"{\"a\":1,\"zz\":\"\xff\"}"), Kind::InvalidUnicode);
    assert_eq!(fails::<Plain>(b"{\"a\":1,\"z\xffz\":1}"), Kind::InvalidUnicode);
    assert_eq!(fails::<Plain>(br#"{"a":1,"zz":"\ud800"}"#), Kind::InvalidUnicode);
    assert_eq!(fails::<String>(br#""\ud800""#), Kind::InvalidUnicode);
    assert_eq!(decode::<Plain>(br#"{"a":1,"zz":"\ud83d\ude00"}"#).unwrap(), Plain { a: 1 });
}

/// C18: a flattened optional group of which a part is missing is `None`; that is serde's rule, and not used in the library.
#[test]
fn half_a_flattened_option_is_none() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Point {
        x: u8,
        y: u8,
    }
    assert_eq!(decode::<Flat<Option<Point>>>(r#"{"a":1,"x":2}"#).unwrap().rest, None);
}

/// C19: `Some(None)` and `Some(())` are `null`, which comes back as `None`.
#[test]
fn nested_options_collapse() {
    assert_eq!(decode::<Option<Option<u8>>>(super::encode(&Some(None::<u8>)).unwrap()).unwrap(), None);
    assert_eq!(decode::<Option<()>>(super::encode(&Some(())).unwrap()).unwrap(), None);
}

#[test]
fn trailing_data_is_refused() {
    assert_eq!(decode::<u8>(" 1 \n\t\r").unwrap(), 1);
    for text in ["1 2", "1x", "1\0", "1,"] {
        assert_eq!(fails::<u8>(text), Kind::TrailingData, "{text}");
    }
    for text in ["", " ", "{", "[1,", "nul", "{\"a\"}", "[1,]", "01", "'a'", "NaN", "\"\t\"", "/**/1"] {
        assert_eq!(fails::<Value>(text), Kind::Syntax, "{text}");
        assert_eq!(fails::<IgnoredAny>(text), Kind::Syntax, "{text}");
    }
}

#[test]
fn repeated_keys_are_refused_everywhere() {
    /// Takes the last of repeated keys, as hand-written code does.
    #[derive(Debug)]
    struct Careless;
    impl<'de> Deserialize<'de> for Careless {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Careless;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a careless struct")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Careless, A::Error> {
                    while map.next_entry::<String, Value>()?.is_some() {}
                    Ok(Careless)
                }
            }
            deserializer.deserialize_struct("Careless", &["a"], Visitor)
        }
    }
    #[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
    enum Unit {
        A,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    enum External {
        V { x: u8 },
    }

    const TWICE: &str = r#"{"a":1,"b":2,"a":3}"#;
    assert_eq!(fails::<Plain>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<Plain>(r#"{"a":1,"b":2,"b":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Plain>(r#"{"a":1,"b":2,"\u0062":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Plain>(format!(r#"{{"a":1,"b":[[{TWICE}]]}}"#)), Kind::DuplicateKey);
    assert_eq!(fails::<HashMap<String, u8>>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<BTreeMap<String, u8>>(r#"{"a":1,"\u0061":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<BTreeMap<u8, u8>>(r#"{"1":1,"1":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<HashMap<Unit, u8>>(r#"{"A":1,"A":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Value>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<Vec<Value>>(format!("[{TWICE}]")), Kind::DuplicateKey);
    assert_eq!(fails::<IgnoredAny>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<Careless>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<Flat<BTreeMap<String, u8>>>(TWICE), Kind::DuplicateKey);
    assert_eq!(fails::<Flat<BTreeMap<String, u8>>>(r#"{"a":1,"b":2,"b":3}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Flat<Inner<IgnoredAny>>>(r#"{"a":1,"x":2,"y":{"z":1,"z":1}}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Tagged<u8>>(r#"{"kind":"One","x":1,"x":2}"#), Kind::DuplicateKey);
    assert_eq!(fails::<Tagged<u8>>(r#"{"kind":"One","x":1,"kind":"One"}"#), Kind::DuplicateKey);
    assert_eq!(fails::<External>(r#"{"V":{"x":1,"y":2,"y":3}}"#), Kind::DuplicateKey);

    for len in [2, 15, 16, 17, 18, 1_000] {
        for order in [(0..len).collect::<Vec<u32>>(), (0..len).rev().collect()] {
            let object = |keys: &[u32]| {
                format!("{{{}}}", keys.iter().map(|key| format!("\"{key}\":0")).collect::<Vec<_>>().join(","))
            };
            assert!(decode::<Value>(object(&order)).is_ok());
            assert_eq!(fails::<Value>(object(&[order.as_slice(), &[len / 2]].concat())), Kind::DuplicateKey);
        }
    }
}

#[test]
fn fields_of_a_struct_are_named_in_errors() {
    let error = decode::<Plain>("{}").unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::MissingField, "a"));
    let error = decode::<Plain>(r#"{"a":1,"a":1}"#).unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::DuplicateKey, "a"));
    let error = decode::<Vec<Plain>>("[\n {\"a\": null}]").unwrap_err();
    assert_eq!((error.path(), error.line(), error.expected()), ("[0].a", 2, Some("u8")));
    assert_eq!(
        error.to_string(),
        "`[0].a`: the value has the wrong type, range or length; send u8 (line 2, column 11)"
    );
}

/// C21: forms of nothing come back as themselves.
#[test]
fn units_keep_their_forms() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Unit;
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Empty {}
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Tuple();
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct New(u8);
    assert_eq!(round_trip(&Unit), "null");
    assert_eq!(round_trip(&()), "null");
    assert_eq!(round_trip(&Empty {}), "{}");
    assert_eq!(round_trip(&Tuple()), "[]");
    assert_eq!(round_trip(&New(1)), "1");
}

#[test]
fn errors_hold_no_payload() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is never read successfully")]
    struct Strict {
        unit: Option<Word>,
        number: Option<u8>,
        map: Option<HashMap<String, HashMap<u8, bool>>>,
        custom: Option<Custom>,
        tagged: Option<Tagged<u8>>,
    }
    #[derive(Debug, Deserialize)]
    enum Word {
        Known,
    }
    #[derive(Debug)]
    struct Custom;
    impl<'de> Deserialize<'de> for Custom {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(serde::de::Error::custom(text))
        }
    }
    for (text, kind) in [
        (r#"{"s3cret":1}"#, Kind::UnknownField),
        (r#"{"unit":"s3cret"}"#, Kind::UnknownVariant),
        (r#"{"number":"s3cret"}"#, Kind::Mismatch),
        (r#"{"map":{"s3cret":{"1":"s3cret"}}}"#, Kind::Mismatch),
        (r#"{"map":{"s3cret":{"s3cret":true}}}"#, Kind::Mismatch),
        (r#"{"map":{"s3cret":{},"s3cret":{}}}"#, Kind::DuplicateKey),
        (r#"{"custom":"s3cret"}"#, Kind::Refused),
        (r#"{"custom":"missing field `s3cret`"}"#, Kind::MissingField),
        (r#"{"custom":"invalid type: x, expected s3cret"}"#, Kind::Mismatch),
        (r#"{"tagged":{"kind":"s3cret"}}"#, Kind::UnknownVariant),
        (r#"{"tagged":{"kind":"One","x":"s3cret"}}"#, Kind::Mismatch),
        (r#"{"unit":s3cret}"#, Kind::Syntax),
        ("{} s3cret", Kind::TrailingData),
    ] {
        let error = decode::<Strict>(text).unwrap_err();
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(error.kind(), kind, "{text}: {error}");
    }
}

#[test]
fn strings_with_half_a_pair_are_refused_as_bytes() {
    struct Bytes;
    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl serde::de::Visitor<'_> for Visitor {
                type Value = Bytes;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("bytes")
                }
                fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Bytes, E> {
                    Ok(Bytes)
                }
            }
            deserializer.deserialize_bytes(Visitor)
        }
    }
    assert!(decode::<Bytes>(r#""a\u00e9""#).is_ok());
    assert_eq!(fails::<Bytes>(r#""\ud800""#), Kind::InvalidUnicode);
}
