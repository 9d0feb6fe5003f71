//! Writes the fields of a struct.

use serde::{Serialize, de::IgnoredAny, ser};

use super::{
    super::error::{EncodeErrorKind as Kind, Step},
    write::{Done, Failure, Writer, check_verbatim, is_plain},
};

/// A struct that is being written.
///
/// Names are literals as a rule, so that their place in the filter `seen` is a constant in the compiled code. Only when
/// the filter can't tell a name from an earlier one are the names compared.
pub(super) struct Fields<'s, 'o> {
    writer: &'s mut Writer<'o>,
    form: Form,
    /// One bit for each name, by its hash.
    seen: u64,
    /// How many heads belong to the objects around this one.
    outer_heads: usize,
}

#[derive(Clone, Copy)]
enum Form {
    Object,
    /// A struct variant: an object in an object of one entry.
    Variant,
    /// `serde_json`'s number that keeps its text.
    Number,
    /// `serde_json`'s `RawValue`.
    Verbatim,
}

impl<'s, 'o> Fields<'s, 'o> {
    #[inline]
    pub(super) fn open(writer: &'s mut Writer<'o>, variant: bool) -> Result<Self, Failure> {
        writer.descend()?;
        Ok(Self::new(writer, if variant { Form::Variant } else { Form::Object }))
    }

    pub(super) fn number(writer: &'s mut Writer<'o>) -> Self {
        Self::new(writer, Form::Number)
    }

    pub(super) fn verbatim(writer: &'s mut Writer<'o>) -> Self {
        writer.verbatim = true;
        Self::new(writer, Form::Verbatim)
    }

    #[inline]
    fn new(writer: &'s mut Writer<'o>, form: Form) -> Self {
        let outer_heads = writer.heads.len();
        Self { writer, form, seen: 0, outer_heads }
    }

    // Only where it is inlined is a literal's place in the filter a constant; a hint alone is passed over in large crates.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn name(&mut self, name: &'static str) -> Done {
        // The brace comes with the first name.
        let lead = if self.seen == 0 { b'{' } else { b',' };
        let bit = 1 << (hash(name) & 63);
        if self.seen & bit != 0 {
            self.compare(name)?;
        }
        self.seen |= bit;
        let out = &mut *self.writer.out;
        self.writer.heads.push(out.len() + 1 - self.writer.base);
        if is_plain(name) {
            out.extend_from_slice(&[lead, b'"']);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
        } else {
            out.push(lead);
            self.writer.string(name)?;
            self.writer.out.push(b':');
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn compare(&mut self, name: &'static str) -> Done {
        let start = self.writer.out.len();
        self.writer.string(name)?;
        let (earlier, name) = self.writer.out.split_at(start);
        let payload = &earlier[self.writer.base..];
        let heads = &self.writer.heads;
        // A quote in a name is escaped, so the closing quote ends the comparison at the whole name.
        let repeated = (self.outer_heads..heads.len()).any(|index| payload[heads.get(index)..].starts_with(name));
        self.writer.out.truncate(start);
        if repeated { Err(Failure::new(Kind::DuplicateKey)) } else { Ok(()) }
    }

    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
        let written = match self.form {
            Form::Object | Form::Variant => self
                .name(name)
                .and_then(|()| value.serialize(&mut *self.writer))
                .and_then(|()| self.writer.check_limit()),
            Form::Number | Form::Verbatim => return self.text(value),
        };
        written.map_err(|failure| failure.at(Step::Field(name)))
    }

    /// Writes text that is JSON already: it is written as a string and then unquoted in place.
    #[cold]
    fn text<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        let refused = || Failure::new(Kind::Refused);
        let start = self.writer.out.len();
        value.serialize(&mut *self.writer)?;
        let text: String = serde_json::from_slice(&self.writer.out[start..]).map_err(|_| refused())?;
        self.writer.out.truncate(start);
        if let Form::Number = self.form {
            let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
            if !is_number || serde_json::from_str::<IgnoredAny>(&text).is_err() {
                return Err(refused());
            }
        } else {
            check_verbatim(text.as_bytes())?;
        }
        self.writer.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    #[inline]
    fn close(self) {
        if let Form::Number | Form::Verbatim = self.form {
            return;
        }
        if self.seen == 0 {
            self.writer.out.push(b'{');
        }
        self.writer.out.push(b'}');
        self.writer.heads.truncate(self.outer_heads);
        self.writer.ascend();
        if let Form::Variant = self.form {
            self.writer.close_variant();
        }
    }
}

/// Spreads names over the bits of a word. Few operations on few bytes, so that the compiler can do it for a literal.
#[allow(clippy::inline_always)]
#[inline(always)]
fn hash(name: &str) -> usize {
    let name = name.as_bytes();
    let byte = |index: usize| usize::from(name.get(index).copied().unwrap_or_default());
    let len = name.len();
    len.wrapping_mul(5)
        ^ byte(0).wrapping_mul(7)
        ^ byte(len / 2).wrapping_mul(19)
        ^ byte(len.wrapping_sub(1)).wrapping_mul(31)
}

macro_rules! fields {
    ($($trait:ident,)*) => {$(
        impl ser::$trait for Fields<'_, '_> {
            type Ok = ();
            type Error = Failure;

            #[allow(clippy::inline_always)]
            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
                self.field(name, value)
            }

            #[inline]
            fn end(self) -> Done {
                self.close();
                Ok(())
            }
        }
    )*};
}

fields! { SerializeStruct, SerializeStructVariant, }
