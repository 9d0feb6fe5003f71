//! Writes a map's key, which is a string in JSON.

use std::fmt;

use serde::{Serialize, Serializer, ser::Impossible};

use super::{
    super::error::EncodeErrorKind as Kind,
    write::{Done, Failure, Writer, written},
};

/// Writes text as it is, and numbers and bools in quotes.
pub(super) struct KeyWriter<'s, 'o>(pub(super) &'s mut Writer<'o>);

type Refused = Result<Impossible<(), Failure>, Failure>;

#[cold]
fn not_text() -> Failure {
    Failure::new(Kind::KeyNotText)
}

macro_rules! quoted {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method(self, value: $type) -> Done {
            self.0.out.push(b'"');
            self.0.$method(value)?;
            self.0.out.push(b'"');
            Ok(())
        }
    )*};
}

impl Serializer for KeyWriter<'_, '_> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Impossible<(), Failure>;
    type SerializeTuple = Impossible<(), Failure>;
    type SerializeTupleStruct = Impossible<(), Failure>;
    type SerializeTupleVariant = Impossible<(), Failure>;
    type SerializeMap = Impossible<(), Failure>;
    type SerializeStruct = Impossible<(), Failure>;
    type SerializeStructVariant = Impossible<(), Failure>;

    quoted! {
        serialize_bool: bool, serialize_f32: f32, serialize_f64: f64,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Done {
        self.0.string(value)
    }

    fn serialize_char(self, value: char) -> Done {
        written(self.0.json().serialize_char(value))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        self.0.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Done {
        self.0.collect_str(value)
    }

    fn serialize_bytes(self, _: &[u8]) -> Done {
        Err(not_text())
    }

    fn serialize_none(self) -> Done {
        Err(not_text())
    }

    fn serialize_unit(self) -> Done {
        Err(not_text())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        Err(not_text())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Done {
        Err(not_text())
    }

    fn serialize_seq(self, _: Option<usize>) -> Refused {
        Err(not_text())
    }

    fn serialize_tuple(self, _: usize) -> Refused {
        Err(not_text())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Refused {
        Err(not_text())
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Refused {
        Err(not_text())
    }

    fn serialize_map(self, _: Option<usize>) -> Refused {
        Err(not_text())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Refused {
        Err(not_text())
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Refused {
        Err(not_text())
    }
}
