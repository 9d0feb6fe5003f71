//! Reads a value from JSON text: the deserializer that wraps `serde_json`'s.
//!
//! A payload is read twice at most. The first pass keeps no track of where it is, so that a good payload pays next to
//! nothing. Whatever it doesn't like, the second pass reads again with a [`Trace`], to decide and to say where.

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, Visitor};

use super::{
    super::error::{DecodeError, DecodeErrorKind as Kind},
    RAW_TOKEN,
    access::Visit,
    trace::{Context, Trace, position},
};

/// Reads one value that takes up all of `bytes`.
#[inline]
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_unicode(bytes, error.valid_up_to()))?;
    let context = Context::new(None);
    let mut json = serde_json::Deserializer::from_str(text);
    match T::deserialize(Reader::<_, false>::new(&mut json, &context)) {
        Ok(value) if json.end().is_ok() && !context.has_verbatim() => Ok(value),
        _ => decode_traced(text),
    }
}

/// Checks text as a payload without reading it into a type.
pub(super) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    decode::<IgnoredAny>(bytes).map(drop)
}

#[cold]
fn not_unicode(bytes: &[u8], valid_up_to: usize) -> DecodeError {
    let (line, column) = position(&bytes[..valid_up_to]);
    DecodeError::new(Kind::InvalidUnicode).position(line, column)
}

#[cold]
#[inline(never)]
fn decode_traced<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    if text.starts_with('\u{feff}') {
        return Err(DecodeError::new(Kind::ByteOrderMark).position(1, 1));
    }
    let trace = Trace::new(text);
    let context = Context::new(Some(&trace));
    let mut json = serde_json::Deserializer::from_reader(trace.bytes());
    let value = T::deserialize(Reader::<_, true>::new(&mut json, &context)).map_err(|error| trace.explain(&error))?;
    json.end().map_err(|error| DecodeError::new(Kind::TrailingData).position(error.line(), error.column()))?;
    if context.has_verbatim() {
        // `serde_json` skips verbatim text without a look at its keys and depth.
        check(text.as_bytes())?;
    }
    Ok(value)
}

/// Wraps a deserializer so that everything below it is checked. `TRACED` is the second pass.
pub(super) struct Reader<'c, D, const TRACED: bool> {
    inner: D,
    context: &'c Context<'c>,
}

impl<'c, D, const TRACED: bool> Reader<'c, D, TRACED> {
    #[inline]
    pub(super) fn new(inner: D, context: &'c Context<'c>) -> Self {
        Self { inner, context }
    }
}

/// Deserialises what a seed asks for through a [`Reader`].
pub(super) struct Seed<'c, S, const TRACED: bool> {
    seed: S,
    context: &'c Context<'c>,
}

impl<'c, S, const TRACED: bool> Seed<'c, S, TRACED> {
    #[inline]
    pub(super) fn new(seed: S, context: &'c Context<'c>) -> Self {
        Self { seed, context }
    }
}

impl<'de, S: DeserializeSeed<'de>, const TRACED: bool> DeserializeSeed<'de> for Seed<'_, S, TRACED> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Reader::<D, TRACED>::new(inner, self.context))
    }
}

/// Methods that read one scalar: nothing below it needs a look.
macro_rules! scalars {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            if TRACED {
                self.context.expect(&visitor);
            }
            self.inner.$method(visitor)
        }
    )*};
}

/// Methods below which more values may stand.
macro_rules! compounds {
    ($($method:ident($($arg:ident: $type:ty),*) as $visit:ident;)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            if TRACED {
                self.context.expect(&visitor);
            }
            self.inner.$method($($arg,)* Visit::<V, TRACED>::$visit(visitor, self.context))
        }
    )*};
}

impl<'de, D: Deserializer<'de>, const TRACED: bool> Deserializer<'de> for Reader<'_, D, TRACED> {
    type Error = D::Error;

    scalars! {
        deserialize_bool deserialize_char deserialize_str deserialize_string deserialize_unit deserialize_identifier
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    compounds! {
        deserialize_any() as any;
        deserialize_bytes() as typed;
        deserialize_byte_buf() as typed;
        deserialize_option() as typed;
        deserialize_unit_struct(name: &'static str) as typed;
        deserialize_seq() as typed;
        deserialize_tuple(len: usize) as typed;
        deserialize_tuple_struct(name: &'static str, len: usize) as typed;
        deserialize_map() as typed;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) as typed;
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        if TRACED {
            self.context.expect(&visitor);
        }
        self.inner.deserialize_struct(name, fields, Visit::<V, TRACED>::fields(visitor, self.context, fields))
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        if name == RAW_TOKEN {
            self.context.note_verbatim();
            return self.inner.deserialize_newtype_struct(name, visitor);
        }
        self.inner.deserialize_newtype_struct(name, Visit::<V, TRACED>::typed(visitor, self.context))
    }

    /// Reads the value with all checks, where `serde_json` would skip it with hardly any.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Visit::<IgnoredAny, TRACED>::any(IgnoredAny, self.context))?;
        visitor.visit_unit()
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
