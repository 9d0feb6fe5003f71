//! One test for each known failure of JSON codecs; the names say what must not happen.
//!
//! They hold with `serde_json`'s features on and off. To run them with both on:
//! `cargo test -p tidings --features serde_json/arbitrary_precision,serde_json/raw_value codec`

mod decode;
mod encode;
mod round_trip;

use serde::{Serialize, de::DeserializeOwned};

use crate::codec::{Decode, DecodeError, DecodeErrorKind, Encode, EncodeError, EncodeErrorKind, Json};

const LIMIT: usize = 1 << 20;

fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, EncodeError> {
    let mut payload = b"before".to_vec();
    let result = Json::encode(value, &mut payload, LIMIT);
    assert!(payload.starts_with(b"before"), "what stood in the buffer stays");
    let payload = payload.split_off(6);
    assert!(result.is_ok() || payload.is_empty(), "an error leaves nothing behind");
    result.map(|()| String::from_utf8(payload).expect("JSON is UTF-8"))
}

fn refused<T: Serialize + ?Sized>(value: &T) -> EncodeErrorKind {
    encode(value).expect_err("the value is refused").kind()
}

fn decode<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> Result<T, DecodeError> {
    Json::decode(text.as_ref())
}

#[track_caller]
fn fails<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> DecodeErrorKind {
    decode::<T>(text).map(drop).expect_err("the payload is refused").kind()
}

/// Checks that a value comes back equal, and returns its text.
#[track_caller]
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> String {
    let text = encode(value).expect("the value is written");
    let back = decode::<T>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&back, value, "{text}");
    text
}

/// Runs with a stack as small as an embedded runtime's thread.
fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(test)
        .expect("a thread starts")
        .join()
        .expect("the test passes");
}
