//! Numbers in dynamic values, where `serde_json` would round integers or, with `arbitrary_precision`, hand out a map.

use std::any::{TypeId, type_name};

use serde::de::{self, Error as _, IgnoredAny, MapAccess, Visitor, value::MapDeserializer};

use super::{super::error::DecodeErrorKind as Kind, NUMBER_TOKEN, trace::Context};

/// From here on a float that the parser hands out may be an integer that it rounded.
const MAYBE_INTEGER: f64 = 9_223_372_036_854_775_808.0;

/// Says whether a value is read only to be skipped.
#[inline]
pub(super) fn is_ignored<T>() -> bool {
    typeid::of::<T>() == TypeId::of::<IgnoredAny>()
}

/// Visits a float of a dynamic value, or the integer that was rounded to it.
#[inline]
pub(super) fn visit_float<'de, V: Visitor<'de>, E: de::Error>(
    value: f64,
    visitor: V,
    context: &Context<'_>,
) -> Result<V::Value, E> {
    if value.abs() < MAYBE_INTEGER || is_ignored::<V::Value>() {
        return visitor.visit_f64(value);
    }
    // The first pass doesn't know the text, and leaves it to the second.
    let text = context.trace().ok_or_else(|| E::custom("seen again"))?.number();
    if is_integer(text) { visit_integer(text, visitor, context) } else { visitor.visit_f64(value) }
}

/// Says whether `A` is `serde_json`'s number that keeps its text, which poses as a map. A payload can't fake a type.
#[inline]
pub(super) fn is_number<A>() -> bool {
    type_name::<A>() == "serde_json::number::NumberDeserializer"
}

/// Visits a number that keeps its text as what it is without `arbitrary_precision`, unless the text is wanted.
pub(super) fn visit_number<'de, V: Visitor<'de>, A: MapAccess<'de>>(
    mut number: A,
    visitor: V,
    context: &Context<'_>,
) -> Result<V::Value, A::Error> {
    let wanted = typeid::of::<V::Value>();
    if wanted == TypeId::of::<serde_json::Value>() || wanted == TypeId::of::<serde_json::Number>() {
        return visitor.visit_map(number);
    }
    let (_, text) = number.next_entry::<String, String>()?.ok_or_else(|| A::Error::custom("a number without text"))?;
    if is_integer(&text) {
        return visit_integer(&text, visitor, context);
    }
    let value =
        text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| context.fail(Kind::OutOfRange))?;
    if is_same(&text, value) || is_ignored::<V::Value>() || is_buffer::<V::Value>() {
        visitor.visit_f64(value)
    } else {
        // More digits than a float has: a decimal type may know what to do with the text.
        visitor.visit_map(MapDeserializer::new(std::iter::once((NUMBER_TOKEN, text))))
    }
}

/// Says whether `T` is what derived code buffers flattened, untagged and tagged content in; floats end up as `f64` there.
fn is_buffer<T>() -> bool {
    let name = type_name::<T>();
    name.starts_with("serde") && name.contains("::Content")
}

/// Says whether a number's text is an integer. `-0` is a float, which has a negative zero.
fn is_integer(text: &str) -> bool {
    text != "-0" && !text.contains(['.', 'e', 'E'])
}

fn visit_integer<'de, V: Visitor<'de>, E: de::Error>(
    text: &str,
    visitor: V,
    context: &Context<'_>,
) -> Result<V::Value, E> {
    if is_ignored::<V::Value>() {
        visitor.visit_unit()
    } else if let Ok(value) = text.parse::<u64>() {
        visitor.visit_u64(value)
    } else if let Ok(value) = text.parse::<i64>() {
        visitor.visit_i64(value)
    } else if let Ok(value) = text.parse::<u128>() {
        visitor.visit_u128(value).map_err(|_: E| context.fail(Kind::OutOfRange))
    } else if let Ok(value) = text.parse::<i128>() {
        visitor.visit_i128(value).map_err(|_: E| context.fail(Kind::OutOfRange))
    } else {
        Err(context.fail(Kind::OutOfRange))
    }
}

/// Says whether a float, written out, is the number that the text says.
fn is_same(text: &str, value: f64) -> bool {
    digits(text) == digits(&format!("{value:e}"))
}

/// Splits a number into sign, digits without zeros at both ends, and the power of ten of its first digit.
fn digits(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unsigned = whole.trim_start_matches('-');
    let all = format!("{unsigned}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0').to_owned();
    let power = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX);
    let first = if digits.is_empty() { 0 } else { exponent.saturating_add(power(unsigned.len()) - power(leading)) };
    (whole.starts_with('-'), digits, first)
}
