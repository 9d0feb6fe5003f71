//! The strict JSON codec.
//!
//! It is serde's data model on `serde_json`'s text, with the places closed where a value can change on the way.
//!
//! On encode:
//! - NaN and infinities are refused wherever they stand; they never become `null`.
//! - An object never gets a key twice: not from a tag beside a field of that name, flattened fields or a map's keys that
//!   are written alike.
//! - Arrays and objects nest at most 127 levels, as deep as readers accept.
//! - The limit is checked while writing.
//!
//! On decode:
//! - The payload is UTF-8, also in fields that nobody reads; a byte-order mark and data after the value are refused.
//! - A key twice in one object is refused anywhere: in structs, maps, dynamic values, flattened and tagged content, and
//!   inside of ignored fields. Only a hand-written `Deserialize` that asks for a struct, reads identifiers and takes a
//!   known field twice is on its own.
//! - Arrays and objects nest at most 127 levels, also in ignored fields.
//! - An integer keeps all its digits. Where it goes through a dynamic value or buffered content (flattened, untagged and
//!   internally tagged) and doesn't fit 64 bits, it is handed on with 128 bits or refused, never rounded.
//! - A number that is beyond every `f64` is refused, also in ignored fields.
//!
//! What serde's data model says about JSON holds here too, and matters for schemas:
//! - `Some(None)` and `Some(())` are `null` and come back as `None`.
//! - `()`, unit structs and `None` are `null`; `struct E {}` is `{}`, `struct T();` is `[]`, a newtype is what it holds.
//! - A flattened `Option` of a struct is `None` when one of its fields is missing.
//! - An untagged enum takes the first variant that fits: `I(i64)` before `F(f64)` turns an integer above `i64::MAX` into a
//!   float. Put a variant for `u64` first.
//!
//! `serde_json`'s features `arbitrary_precision` and `raw_value` may be on elsewhere in the graph. With the first, a
//! `Value` or `Number` keeps a number's text, and everything else sees plain numbers as without it. A `RawValue` is
//! copied verbatim in both directions, once its text was checked like the rest.

mod access;
mod decode;
mod encode;
mod entries;
mod fields;
mod key;
mod keys;
mod number;
#[cfg(test)]
mod tests;
mod trace;
mod write;

use serde::{Serialize, de::DeserializeOwned};

use super::{Codec, Decode, DecodeError, Encode, EncodeError};

/// How `serde_json` marks a number that keeps its text.
const NUMBER_TOKEN: &str = "$serde_json::private::Number";
/// How `serde_json` marks text that is JSON already.
const RAW_TOKEN: &str = "$serde_json::private::RawValue";

/// Says whether `key` is one of `serde_json`'s own words, which in a payload would turn an object into something else.
fn is_reserved(key: &str) -> bool {
    key == NUMBER_TOKEN || key == RAW_TOKEN
}

/// Encodes payloads as JSON text, by serde's `Serialize` and `Deserialize`.
///
/// What JSON can't carry without loss is refused rather than changed: NaN, repeated keys, integers that would be
/// rounded, nesting that readers refuse.
#[derive(Debug, Clone, Copy)]
pub struct Json;

impl Codec for Json {
    const CONTENT_TYPE: &'static str = "application/json";
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Encode<T> for Json {
    #[inline]
    fn encode(value: &T, to: &mut Vec<u8>, limit: usize) -> Result<(), EncodeError> {
        encode::encode(value, to, limit)
    }
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> Decode<T> for Json {
    #[inline]
    fn decode(bytes: &[u8]) -> Result<T, DecodeError> {
        decode::decode(bytes)
    }
}
