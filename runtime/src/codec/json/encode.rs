//! Writes a value as JSON text.
//!
//! Structure (brackets, commas, names) is written here, scalars by `serde_json`.

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer, ser};

use super::{
    super::error::{EncodeError, EncodeErrorKind as Kind, Step},
    NUMBER_TOKEN, RAW_TOKEN,
    fields::Fields,
    keys::Entries,
    write::{Done, Failure, Writer, written},
};

/// Appends `value` to `to`, or leaves `to` as it was.
#[inline]
pub(super) fn encode<T: Serialize + ?Sized>(value: &T, to: &mut Vec<u8>, limit: usize) -> Result<(), EncodeError> {
    let base = to.len();
    let mut writer = Writer::new(to, limit);
    match value.serialize(&mut writer).and_then(|()| writer.finish()) {
        Ok(()) => Ok(()),
        Err(failure) => {
            to.truncate(base);
            Err(failure.into_error())
        }
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty,)*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Done {
            written(self.json().$method(value))
        }
    )*};
}

macro_rules! floats {
    ($($method:ident: $type:ty,)*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Done {
            if value.is_finite() { written(self.json().$method(value)) } else { Err(Failure::new(Kind::NotFinite)) }
        }
    )*};
}

impl<'s, 'o> Serializer for &'s mut Writer<'o> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Items<'s, 'o>;
    type SerializeTuple = Items<'s, 'o>;
    type SerializeTupleStruct = Items<'s, 'o>;
    type SerializeTupleVariant = Items<'s, 'o>;
    type SerializeMap = Entries<'s, 'o>;
    type SerializeStruct = Fields<'s, 'o>;
    type SerializeStructVariant = Fields<'s, 'o>;

    scalars! {
        serialize_bool: bool, serialize_char: char,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    floats! { serialize_f32: f32, serialize_f64: f64, }

    #[inline]
    fn serialize_str(self, value: &str) -> Done {
        self.string(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Done {
        self.check_room(value.len().saturating_mul(2))?;
        self.descend()?;
        self.ascend();
        written(self.json().serialize_bytes(value))
    }

    #[inline]
    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Done {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        self.string(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        self.open_variant(variant)?;
        value.serialize(&mut *self)?;
        self.close_variant();
        Ok(())
    }

    #[inline]
    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'s, 'o>, Failure> {
        Items::open(self, false)
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Items<'s, 'o>, Failure> {
        Items::open(self, false)
    }

    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'s, 'o>, Failure> {
        Items::open(self, false)
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'s, 'o>, Failure> {
        self.open_variant(variant)?;
        Items::open(self, true)
    }

    #[inline]
    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'s, 'o>, Failure> {
        Entries::open(self)
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'s, 'o>, Failure> {
        if name == NUMBER_TOKEN {
            Ok(Fields::number(self))
        } else if name == RAW_TOKEN {
            Ok(Fields::verbatim(self))
        } else {
            Fields::open(self, false)
        }
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields<'s, 'o>, Failure> {
        self.open_variant(variant)?;
        Fields::open(self, true)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Done {
        struct Pieces<'w, 'o>(&'w mut Writer<'o>, Done);

        impl fmt::Write for Pieces<'_, '_> {
            fn write_str(&mut self, piece: &str) -> fmt::Result {
                self.1 = self.0.piece(piece);
                if self.1.is_ok() { Ok(()) } else { Err(fmt::Error) }
            }
        }

        self.out.push(b'"');
        let mut pieces = Pieces(self, Ok(()));
        let shown = write!(pieces, "{value}");
        pieces.1?;
        shown.map_err(|fmt::Error| Failure::new(Kind::Refused))?;
        self.out.push(b'"');
        Ok(())
    }
}

impl Writer<'_> {
    #[inline]
    fn open_variant(&mut self, variant: &'static str) -> Done {
        self.descend()?;
        self.out.push(b'{');
        self.string(variant)?;
        self.out.push(b':');
        Ok(())
    }

    #[inline]
    pub(super) fn close_variant(&mut self) {
        self.ascend();
        self.out.push(b'}');
    }
}

/// An array that is being written.
pub(super) struct Items<'s, 'o> {
    writer: &'s mut Writer<'o>,
    len: usize,
    variant: bool,
}

impl<'s, 'o> Items<'s, 'o> {
    #[inline]
    fn open(writer: &'s mut Writer<'o>, variant: bool) -> Result<Self, Failure> {
        writer.descend()?;
        writer.out.push(b'[');
        Ok(Self { writer, len: 0, variant })
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        if self.len > 0 {
            self.writer.out.push(b',');
        }
        let index = self.len;
        self.len += 1;
        value
            .serialize(&mut *self.writer)
            .and_then(|()| self.writer.check_limit())
            .map_err(|failure| failure.at(Step::Index(index)))
    }

    #[inline]
    fn close(self) {
        self.writer.ascend();
        self.writer.out.push(b']');
        if self.variant {
            self.writer.close_variant();
        }
    }
}

macro_rules! items {
    ($($trait:ident::$method:ident,)*) => {$(
        impl ser::$trait for Items<'_, '_> {
            type Ok = ();
            type Error = Failure;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
                self.item(value)
            }

            #[inline]
            fn end(self) -> Done {
                self.close();
                Ok(())
            }
        }
    )*};
}

items! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}
