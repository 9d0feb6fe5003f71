//! Visits what `serde_json` reads, and hands out arrays, objects and variants with their checks.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{
    super::error::{DecodeErrorKind as Kind, Step},
    decode::{Reader, Seed},
    entries::Entries,
    number,
    trace::Context,
};

/// Wraps a visitor.
pub(super) struct Visit<'c, V, const TRACED: bool> {
    visitor: V,
    context: &'c Context<'c>,
    shape: Shape,
}

/// What the type asked for.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Whatever stands there.
    Any,
    /// Something of one type that isn't a struct.
    Typed,
    /// A struct, whose own code refuses a known field that comes twice.
    Fields(&'static [&'static str]),
}

impl<'c, V, const TRACED: bool> Visit<'c, V, TRACED> {
    #[inline]
    pub(super) fn any(visitor: V, context: &'c Context<'c>) -> Self {
        Self { visitor, context, shape: Shape::Any }
    }

    #[inline]
    pub(super) fn typed(visitor: V, context: &'c Context<'c>) -> Self {
        Self { visitor, context, shape: Shape::Typed }
    }

    #[inline]
    pub(super) fn fields(visitor: V, context: &'c Context<'c>, fields: &'static [&'static str]) -> Self {
        Self { visitor, context, shape: Shape::Fields(fields) }
    }

    #[inline]
    fn check_bytes<E: Error>(&self, value: &[u8]) -> Result<(), E> {
        // `serde_json` lets half of a surrogate pair pass where bytes are wanted.
        std::str::from_utf8(value).map(drop).map_err(|_| self.context.fail(Kind::InvalidUnicode))
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty,)*) => {$(
        #[inline]
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>, const TRACED: bool> Visitor<'de> for Visit<'_, V, TRACED> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    scalars! {
        visit_bool: bool, visit_char: char, visit_f32: f32,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
    }

    #[inline]
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        match self.shape {
            Shape::Any => number::visit_float(value, self.visitor, self.context),
            _ => self.visitor.visit_f64(value),
        }
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<V::Value, E> {
        self.check_bytes(value)?;
        self.visitor.visit_bytes(value)
    }

    fn visit_borrowed_bytes<E: Error>(self, value: &'de [u8]) -> Result<V::Value, E> {
        self.check_bytes(value)?;
        self.visitor.visit_borrowed_bytes(value)
    }

    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<V::Value, E> {
        self.check_bytes(&value)?;
        self.visitor.visit_byte_buf(value)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Reader::<D, TRACED>::new(inner, self.context))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Reader::<D, TRACED>::new(inner, self.context))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(Items::<A, TRACED> { inner: items, context: self.context, index: 0 })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        if number::is_number::<A>() {
            return number::visit_number(entries, self.visitor, self.context);
        }
        self.visitor.visit_map(Entries::<A, TRACED>::new(entries, self.context, self.shape))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, choice: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Choice::<A, TRACED> { inner: choice, context: self.context })
    }
}

/// Hands out the elements of an array.
struct Items<'c, A, const TRACED: bool> {
    inner: A,
    context: &'c Context<'c>,
    /// Counts in the second pass only.
    index: usize,
}

impl<'de, A: SeqAccess<'de>, const TRACED: bool> SeqAccess<'de> for Items<'_, A, TRACED> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = Seed::<S, TRACED>::new(seed, self.context);
        if !TRACED {
            return self.inner.next_element_seed(seed);
        }
        let index = self.index;
        self.index += 1;
        self.context.at(Step::Index(index), || self.inner.next_element_seed(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// Hands out the variant of an enum.
struct Choice<'c, A, const TRACED: bool> {
    inner: A,
    context: &'c Context<'c>,
}

impl<'de, 'c, A: EnumAccess<'de>, const TRACED: bool> EnumAccess<'de> for Choice<'c, A, TRACED> {
    type Error = A::Error;
    type Variant = Content<'c, A::Variant, TRACED>;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (variant, inner) = self.inner.variant_seed(seed)?;
        Ok((variant, Content { inner, context: self.context }))
    }
}

/// Hands out the content of a variant.
struct Content<'c, A, const TRACED: bool> {
    inner: A,
    context: &'c Context<'c>,
}

impl<'de, A: VariantAccess<'de>, const TRACED: bool> VariantAccess<'de> for Content<'_, A, TRACED> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Seed::<S, TRACED>::new(seed, self.context))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, Visit::<V, TRACED>::typed(visitor, self.context))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Visit::<V, TRACED>::fields(visitor, self.context, fields))
    }
}
