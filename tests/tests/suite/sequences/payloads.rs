//! Payloads that JSON libraries get wrong, over a stream and back, and those of others'. Each case says its row.

#![allow(clippy::option_option, reason = "one of the cases is about it")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tidings::codec::{Codec, Decode, DecodeError, Encode, EncodeError, EncodeErrorKind};
use tidings::{Delivery, ErrorKind, Outcome, Start, StreamSettings, stream_spec};

use super::everywhere;
use super::place::{InProcess, OnServer, Place};
use tidings_tests::harness::Kind;

everywhere! {
    c01_c06_numbers_come_back_exactly
    c03_c04_c08_numbers_of_others_are_exact_or_poison
    c11_deep_nesting_is_an_error_on_either_side
    c13_c19_what_would_change_on_the_way_is_refused
    c15_c17_c23_bytes_of_others_stay_as_they_are
    c20_a_payload_too_large_is_refused
    c21_forms_without_data_come_back
    c22_a_time_before_1970_is_refused
}

/// Bytes as they are.
struct Verbatim;

impl Codec for Verbatim {
    const CONTENT_TYPE: &'static str = "application/octet-stream";
}

impl Encode<Foreign> for Verbatim {
    fn encode(value: &Foreign, to: &mut Vec<u8>, limit: usize) -> Result<(), EncodeError> {
        if value.0.len() > limit {
            return Err(EncodeError::new(EncodeErrorKind::TooLarge { limit }));
        }
        to.extend_from_slice(&value.0);
        Ok(())
    }
}

impl Decode<Foreign> for Verbatim {
    fn decode(bytes: &[u8]) -> Result<Foreign, DecodeError> {
        Ok(Foreign(bytes.to_vec()))
    }
}

#[stream_spec(name = "sequences.foreign", version = 1, codec = Verbatim, address = "cases")]
struct Foreign(Vec<u8>);

macro_rules! cases {
    ($($item:item)+) => {
        $(
            #[stream_spec(name = "sequences.case", version = 1, address = "cases")]
            #[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
            $item
        )+
    };
}

cases! {
    struct Numbers { large: u128, small: i128, most: u64, least: i64, single: f32, double: f64, tenth: f64 }
    struct Id { id: u64 }
    struct Byte { byte: u8 }
    struct Signed { n: i64 }
    struct Labels { labels: HashMap<String, String> }
    struct Untagged { n: Either }
    struct Nested { nested: Nest }
    struct Tagged { tagged: Tag }
    struct Twice { twice: Option<Option<u8>> }
    struct Nothing { nothing: Option<()> }
    struct Known { a: u64 }
    struct Text { text: String }
    struct Forms { unit: Unit, none: (), empty: Empty, tuple: Tuple, new: New }
    struct When { when: SystemTime }
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
enum Either {
    Integer(i64),
    Float(f64),
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Nest(Vec<Nest>);

impl Nest {
    fn of(levels: usize) -> Self {
        (1..levels).fold(Self(Vec::new()), |inner, _| Self(vec![inner]))
    }
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "kind")]
enum Tag {
    Inner(Inner),
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Inner {
    kind: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Unit;
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Empty {}
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Tuple();
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct New(u8);

/// Appends a value and reads it back: the same, or refused as a whole. Says which, with the payload's text.
macro_rules! there_and_back {
    ($place:expr, $type:ty, $value:expr) => {{
        let value: $type = $value;
        let stream = <$type>::stream(&$place.broker()).unwrap();
        let _ = stream.delete().await.unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        let appended = stream.append(&(), &value).await;
        let read = stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap();
        match appended {
            Ok(_) => {
                assert_eq!(read.len(), 1);
                assert_eq!(read[0].value().unwrap(), &value);
                Ok(String::from_utf8(read[0].data().to_vec()).unwrap())
            }
            Err(error) => {
                assert!(read.is_empty(), "what was refused is there");
                assert_eq!(error.outcome(), Outcome::NotApplied);
                Err(error.kind())
            }
        }
    }};
}

/// Has others append payloads between two good ones, and returns what is read of theirs; the good ones are unharmed.
macro_rules! from_others {
    ($place:expr, $type:ty, $good:expr, $payloads:expr) => {{
        let good: $type = $good;
        let stream = <$type>::stream(&$place.broker()).unwrap();
        let _ = stream.delete().await.unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        let others = Foreign::stream(&$place.broker()).unwrap();
        stream.append(&(), &good).await.unwrap();
        for payload in $payloads {
            others.append(&(), &Foreign(payload.to_vec())).await.unwrap();
        }
        stream.append(&(), &good).await.unwrap();
        let mut read = stream.read(Start::Earliest, 100, Duration::ZERO).await.unwrap();
        for neighbour in [read.remove(0), read.pop().unwrap()] {
            assert_eq!(neighbour.value().unwrap(), &good);
        }
        for (delivery, payload) in read.iter().zip($payloads) {
            assert_eq!(&delivery.data()[..], &payload[..], "the bytes stay as they came");
        }
        read
    }};
}

fn poison<T: tidings::StreamSpec + Debug>(delivery: &Delivery<T>) -> String {
    let poison = delivery.value().expect_err("it must not decode");
    assert_eq!(poison.position(), delivery.position());
    poison.to_string()
}

async fn c01_c06_numbers_come_back_exactly<P: Place>(place: P) {
    let numbers = Numbers {
        large: u128::MAX,
        small: i128::MIN,
        most: u64::MAX,
        least: i64::MIN,
        single: 0.1,
        double: f64::MAX,
        tenth: 0.1 + 0.2,
    };
    let text = there_and_back!(place, Numbers, numbers).unwrap();
    for part in ["340282366920938463463374607431768211455", "18446744073709551615", "\"single\":0.1,"] {
        assert!(text.contains(part), "`{part}` isn't in {text}");
    }
}

async fn c03_c04_c08_numbers_of_others_are_exact_or_poison<P: Place>(place: P) {
    let labels = Labels { labels: HashMap::from([("a".to_owned(), "b".to_owned())]) };
    let payloads: [&[u8]; 2] = [b"{\"labels\":{\"a\":123}}", b"{\"labels\":{\"a\":\"123\"}}"];
    let read = from_others!(place, Labels, labels, payloads);
    poison(&read[0]);
    assert_eq!(read[1].value().unwrap().labels["a"], "123");

    let payloads: [&[u8]; 1] = [b"{\"n\":18446744073709551615}"];
    let read = from_others!(place, Untagged, Untagged { n: Either::Integer(1) }, payloads);
    // serde's untagged enums go through a value of their own, where this is a float: never another integer.
    assert!(!matches!(read[0].value(), Ok(Untagged { n: Either::Integer(_) })));
    let payloads: [&[u8]; 1] = [b"{\"id\":18446744073709551615}"];
    let read = from_others!(place, Id, Id { id: 1 }, payloads);
    assert_eq!(read[0].value().unwrap().id, u64::MAX);

    let payloads: [&[u8]; 3] = [b"{\"id\":1.0}", b"{\"id\":-1}", b"{\"id\":1e400}"];
    let read = from_others!(place, Id, Id { id: 1 }, payloads);
    for delivery in &read {
        assert!(poison(delivery).contains("id"), "the path of the field is named");
    }
    let payloads: [&[u8]; 1] = [b"{\"byte\":256}"];
    poison(&from_others!(place, Byte, Byte { byte: 255 }, payloads)[0]);
    let payloads: [&[u8]; 1] = [b"{\"n\":-0}"];
    let read = from_others!(place, Signed, Signed { n: -1 }, payloads);
    assert!(read[0].value().is_ok_and(|signed| signed.n == 0) || read[0].value().is_err());
}

async fn c11_deep_nesting_is_an_error_on_either_side<P: Place>(place: P) {
    // The object is a level of its own.
    there_and_back!(place, Nested, Nested { nested: Nest::of(126) }).unwrap();
    assert_eq!(there_and_back!(place, Nested, Nested { nested: Nest::of(127) }), Err(ErrorKind::Encode));
    let deep = |levels: usize| [&b"{\"nested\":"[..], &vec![b'['; levels], &vec![b']'; levels], b"}"].concat();
    let payloads = [deep(126), deep(127), deep(10_000), vec![b'['; 100_000]];
    let read = from_others!(place, Nested, Nested { nested: Nest::of(1) }, &payloads);
    assert_eq!(read[0].value().unwrap().nested, Nest::of(126));
    read[1..].iter().for_each(|delivery| drop(poison(delivery)));
}

async fn c13_c19_what_would_change_on_the_way_is_refused<P: Place>(place: P) {
    let tagged = Tagged { tagged: Tag::Inner(Inner { kind: "x".to_owned() }) };
    assert_eq!(there_and_back!(place, Tagged, tagged), Err(ErrorKind::Encode));
    there_and_back!(place, Twice, Twice { twice: None }).unwrap();
    there_and_back!(place, Twice, Twice { twice: Some(Some(1)) }).unwrap();
    let text = |appended: Result<_, tidings::Error>| appended.map(|_| ()).map_err(|error| error.kind());
    // JSON has one `null` for these two; a caller who needs the difference sends another form.
    let stream = Twice::stream(&place.broker()).unwrap();
    let nothing = Nothing::stream(&place.broker()).unwrap();
    for appended in [
        text(stream.append(&(), &Twice { twice: Some(None) }).await),
        text(nothing.append(&(), &Nothing { nothing: Some(()) }).await),
    ] {
        assert!(matches!(appended, Ok(()) | Err(ErrorKind::Encode)), "{appended:?}");
    }
}

async fn c15_c17_c23_bytes_of_others_stay_as_they_are<P: Place>(place: P) {
    let payloads: [&[u8]; 5] = [
        b"\xef\xbb\xbf{\"a\":1}",
        b"{\"a\":1,\"zz\":\"\xff\"}",
        b"{\"a\":2,\"new\":{\"deep\":[1,2,3]},\"more\":null}",
        b" { \"a\" : 3 } ",
        b"{\"a\":1,\"a\":2}",
    ];
    let read = from_others!(place, Known, Known { a: 0 }, payloads);
    assert_eq!(read.len(), 5);
    poison(&read[0]);
    poison(&read[1]);
    // A field that a newer producer adds harms no older reader, and stays in the bytes.
    assert_eq!(read[2].value().unwrap().a, 2);
    assert_eq!(read[3].value().unwrap().a, 3);
    poison(&read[4]);
}

async fn c20_a_payload_too_large_is_refused<P: Place>(place: P) {
    assert_eq!(there_and_back!(place, Text, Text { text: "x".repeat(10 << 20) }), Err(ErrorKind::TooLarge));
    there_and_back!(place, Text, Text { text: "x".repeat(500 << 10) }).unwrap();
    let labels: HashMap<_, _> = (0..1_000_000).map(|n| (n.to_string(), String::new())).collect();
    assert_eq!(there_and_back!(place, Labels, Labels { labels }), Err(ErrorKind::TooLarge));
    // One that others made larger than this broker's limit is read all the same.
    let large = [&b"{\"text\":\""[..], &vec![b'x'; 520 << 10], b"\"}"].concat();
    let broker = place.broker();
    let stream = Text::stream(&broker).unwrap();
    stream.delete().await.unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
    let wide = tidings::Limits::default().append_bytes(8 << 20);
    let config = tidings::Config::new(broker.namespace().clone()).limits(wide);
    let others = Foreign::stream(&tidings::Broker::new(place.backend(), config).unwrap()).unwrap();
    others.append(&(), &Foreign(large)).await.unwrap();
    let read = stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap();
    assert_eq!(read[0].value().unwrap().text.len(), 520 << 10);
}

async fn c21_forms_without_data_come_back<P: Place>(place: P) {
    let forms = Forms { unit: Unit, none: (), empty: Empty {}, tuple: Tuple(), new: New(7) };
    let text = there_and_back!(place, Forms, forms).unwrap();
    assert_eq!(text, "{\"unit\":null,\"none\":null,\"empty\":{},\"tuple\":[],\"new\":7}");
}

async fn c22_a_time_before_1970_is_refused<P: Place>(place: P) {
    let when = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(there_and_back!(place, When, When { when }), Err(ErrorKind::Encode));
    there_and_back!(place, When, When { when: SystemTime::UNIX_EPOCH + Duration::from_secs(1) }).unwrap();
}
