//! Hands out the entries of an object, each key once.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, Visitor};

use super::{
    super::error::{DecodeErrorKind as Kind, Step},
    access::Shape,
    decode::Seed,
    is_reserved, number,
    trace::Context,
};

/// How many keys are compared one by one before a table pays.
const COMPARED: usize = 16;

/// Wraps an object's entries.
///
/// For a struct, whose derived code refuses known fields that come twice, only fields that nobody reads are noted here;
/// for anything else all keys are.
pub(super) struct Entries<'de, 'c, A, const TRACED: bool> {
    inner: A,
    context: &'c Context<'c>,
    shape: Shape,
    keys: Keys<'de>,
}

impl<'c, A, const TRACED: bool> Entries<'_, 'c, A, TRACED> {
    #[inline]
    pub(super) fn new(inner: A, context: &'c Context<'c>, shape: Shape) -> Self {
        Self { inner, context, shape, keys: Keys::default() }
    }

    fn step(&self) -> Step {
        let Shape::Fields(fields) = self.shape else { return Step::Entry };
        fields.iter().find(|field| **field == self.keys.last).map_or(Step::Entry, |field| Step::Field(field))
    }
}

impl<'de, A: MapAccess<'de>, const TRACED: bool> MapAccess<'de> for Entries<'de, '_, A, TRACED> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let is_struct = matches!(self.shape, Shape::Fields(_));
        if TRACED && let (Shape::Fields(fields), Some(trace)) = (self.shape, self.context.trace()) {
            trace.set_fields(fields);
        }
        self.inner.next_key_seed(Key { inner: seed, context: self.context, keys: &mut self.keys, is_struct })
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if number::is_ignored::<S::Value>() && matches!(self.shape, Shape::Fields(_)) {
            let key = std::mem::take(&mut self.keys.last);
            self.keys.admit(key, self.context)?;
        }
        let step = if TRACED { self.step() } else { Step::Entry };
        let seed = Seed::<S, TRACED>::new(seed, self.context);
        if TRACED {
            self.context.at(step, || self.inner.next_value_seed(seed))
        } else {
            self.inner.next_value_seed(seed)
        }
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The keys of an object.
#[derive(Default)]
struct Keys<'de> {
    /// The last key of a struct.
    last: Cow<'de, str>,
    /// Keys in the order in which they came, while they are sorted or few.
    list: Vec<Cow<'de, str>>,
    unsorted: bool,
    table: Option<HashSet<Cow<'de, str>>>,
}

impl<'de> Keys<'de> {
    /// Notes a key, or refuses it if it isn't new.
    fn admit<E: Error>(&mut self, key: Cow<'de, str>, context: &Context<'_>) -> Result<(), E> {
        if is_reserved(&key) {
            return Err(context.fail(Kind::ReservedKey));
        }
        if self.insert(key) { Ok(()) } else { Err(context.fail(Kind::DuplicateKey)) }
    }

    fn insert(&mut self, key: Cow<'de, str>) -> bool {
        if let Some(table) = &mut self.table {
            return table.insert(key);
        }
        // Sorted keys, as a `BTreeMap` writes them, cost one comparison each.
        if !self.unsorted && self.list.last().is_none_or(|last| *last < key) {
            self.list.push(key);
            return true;
        }
        self.unsorted = true;
        if self.list.len() < COMPARED {
            let is_new = !self.list.contains(&key);
            self.list.push(key);
            return is_new;
        }
        let table = self.table.get_or_insert_default();
        table.extend(self.list.drain(..));
        table.insert(key)
    }
}

/// Wraps, in turn, the seed, the deserializer and the visitor of a key, to see its text.
struct Key<'de, 'k, T> {
    inner: T,
    context: &'k Context<'k>,
    keys: &'k mut Keys<'de>,
    is_struct: bool,
}

impl<'de, 'k, T> Key<'de, 'k, T> {
    /// Takes out what was wrapped, and wraps the next layer.
    #[inline]
    fn swap<U>(self, inner: U) -> (T, Key<'de, 'k, U>) {
        (self.inner, Key { inner, context: self.context, keys: self.keys, is_struct: self.is_struct })
    }

    #[inline]
    fn note<E: Error>(&mut self, key: Cow<'de, str>) -> Result<(), E> {
        if self.is_struct {
            self.keys.last = key;
            Ok(())
        } else {
            self.keys.admit(key, self.context)
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'de, '_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let (seed, key) = self.swap(inner);
        seed.deserialize(key)
    }
}

macro_rules! methods {
    ($($method:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            // Only identifiers are left to a struct's own code.
            self.read(visitor, false, |inner, visitor| inner.$method($($arg,)* visitor))
        }
    )*};
}

impl<'de, 'k, D: Deserializer<'de>> Key<'de, 'k, D> {
    #[inline]
    fn read<V: Visitor<'de>, R>(
        mut self,
        visitor: V,
        identifier: bool,
        read: impl FnOnce(D, Key<'de, 'k, V>) -> R,
    ) -> R {
        if !identifier {
            self.is_struct = false;
            self.context.expect(&visitor);
        }
        let (inner, visit) = self.swap(visitor);
        read(inner, visit)
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Key<'de, '_, D> {
    type Error = D::Error;

    methods! {
        deserialize_any(); deserialize_ignored_any(); deserialize_bool(); deserialize_char();
        deserialize_str(); deserialize_string(); deserialize_bytes(); deserialize_byte_buf(); deserialize_unit();
        deserialize_i8(); deserialize_i16(); deserialize_i32(); deserialize_i64(); deserialize_i128();
        deserialize_u8(); deserialize_u16(); deserialize_u32(); deserialize_u64(); deserialize_u128();
        deserialize_f32(); deserialize_f64(); deserialize_option(); deserialize_seq(); deserialize_map();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.read(visitor, true, D::deserialize_identifier)
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! noted {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method<E: Error>(mut self, value: $type) -> Result<V::Value, E> {
            self.note(Cow::Owned(value.to_string()))?;
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Key<'de, '_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    noted! {
        visit_bool: bool, visit_f32: f32, visit_f64: f64,
        visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128, visit_str: &str,
    }

    #[inline]
    fn visit_borrowed_str<E: Error>(mut self, value: &'de str) -> Result<V::Value, E> {
        self.note(Cow::Borrowed(value))?;
        self.inner.visit_borrowed_str(value)
    }

    fn visit_bytes<E: Error>(mut self, value: &[u8]) -> Result<V::Value, E> {
        let Ok(text) = std::str::from_utf8(value) else { return Err(self.context.fail(Kind::InvalidUnicode)) };
        self.note(Cow::Owned(text.to_owned()))?;
        self.inner.visit_bytes(value)
    }

    fn visit_borrowed_bytes<E: Error>(mut self, value: &'de [u8]) -> Result<V::Value, E> {
        let Ok(text) = std::str::from_utf8(value) else { return Err(self.context.fail(Kind::InvalidUnicode)) };
        self.note(Cow::Borrowed(text))?;
        self.inner.visit_borrowed_bytes(value)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let (visitor, key) = self.swap(inner);
        visitor.visit_some(key)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let (visitor, key) = self.swap(inner);
        visitor.visit_newtype_struct(key)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, choice: A) -> Result<V::Value, A::Error> {
        let (visitor, key) = self.swap(choice);
        visitor.visit_enum(key)
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Key<'de, '_, A> {
    type Error = A::Error;
    type Variant = A::Variant;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, A::Variant), A::Error> {
        let (choice, key) = self.swap(seed);
        choice.variant_seed(key)
    }
}
