//! The key codec: typed keys to address segments and back.
//!
//! A key type has a fixed number of segments, so distinct keys of one type never share a channel. A segment's UTF-8
//! bytes in `[A-Za-z0-9_-]` stand as they are, all others become `%XX` with upper-case hex, and the empty string is
//! `%`: no key can produce a separator, a wildcard or a hash tag. Text is taken byte for byte; nothing is normalised,
//! so `é` as one code point and `é` as two are two keys.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A type that can select a channel of a topic: a leaf such as a string or an integer, or a struct of such.
///
/// Derive it with [`derive@crate::TopicKey`]. A hand-written implementation must write the same number of segments for
/// every value and read back what it wrote.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key",
    label = "not a key",
    note = "keys are strings, `i8` to `i128`, `u8` to `u128`, `bool`, `char`, `()`, uuid and time types (features `uuid`, `time`), and types that derive `tidings::TopicKey`",
    note = "derive it for a type of your own with `#[derive(tidings::TopicKey)]`; floats, options and collections have no one text of a fixed number of segments"
)]
pub trait TopicKey: Sized {
    /// The parts that a prefix may name, as a tuple in order.
    type Parts;

    /// Writes the key's segments.
    fn write(&self, to: &mut KeyWriter<'_>);

    /// Reads back what [`write`](Self::write) wrote.
    ///
    /// # Errors
    ///
    /// [`KeyError`] where the text is no key of this type.
    fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError>;
}

/// Why a text is no key of the wanted type. It never holds the text: keys can be personal data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key segment {segment} {problem}")]
pub struct KeyError {
    segment: usize,
    problem: Cow<'static, str>,
    foreign: bool,
}

impl KeyError {
    /// Says that a segment's text isn't one of the variants of the enum.
    #[must_use]
    pub fn unknown_variant(enum_name: &'static str) -> Self {
        Self { segment: 0, problem: format!("is no variant of `{enum_name}`").into(), foreign: false }
    }

    /// Says in the implementor's words why a segment can't be read.
    #[must_use]
    pub fn invalid(problem: &'static str) -> Self {
        Self { segment: 0, problem: problem.into(), foreign: false }
    }

    /// Says that a key of this type has another number of segments, so the text is some other topic's.
    fn foreign(problem: &'static str) -> Self {
        Self { foreign: true, ..Self::invalid(problem) }
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign
    }

    fn at(mut self, segment: usize) -> Self {
        self.segment = segment;
        self
    }
}

/// Takes a key's segments, escaping what they hold.
#[derive(Debug)]
pub struct KeyWriter<'a> {
    to: &'a mut String,
}

impl<'a> KeyWriter<'a> {
    pub(crate) fn new(to: &'a mut String) -> Self {
        Self { to }
    }

    /// Appends one segment holding `text`, escaped.
    pub fn segment(&mut self, text: &str) {
        self.to.push('.');
        if text.is_empty() {
            self.to.push('%');
        } else if text.bytes().all(stands) {
            self.to.push_str(text);
        } else {
            self.escaped(text);
        }
    }

    /// Appends one segment holding an integer, without the machinery of `Display` where 64 bits are enough.
    fn integer(&mut self, value: impl Into<i128>) {
        let value = value.into();
        let Ok(mut rest) = u64::try_from(value.unsigned_abs()) else { return self.plain(value) };
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while rest > 0 || start == digits.len() {
            start -= 1;
            digits[start] += (rest % 10) as u8;
            rest /= 10;
        }
        self.to.push_str(if value < 0 { ".-" } else { "." });
        self.to.push_str(std::str::from_utf8(&digits[start..]).unwrap_or_default());
    }

    /// Appends one segment whose text is known to need no escape.
    fn plain(&mut self, value: impl std::fmt::Display) {
        self.to.push('.');
        // Writing to a `String` can't fail.
        let _ = write!(self.to, "{value}");
    }

    #[cold]
    fn escaped(&mut self, text: &str) {
        const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
        for byte in text.bytes() {
            if stands(byte) {
                self.to.push(char::from(byte));
            } else {
                self.to.push('%');
                self.to.push(HEX[usize::from(byte >> 4)]);
                self.to.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
}

/// Gives a key's segments, unescaped.
#[derive(Debug)]
pub struct KeyReader<'a> {
    rest: Option<&'a str>,
    segment: usize,
}

impl<'a> KeyReader<'a> {
    /// Starts at the text behind the topic's own address: empty, or a dot and the first segment.
    fn new(text: &'a str) -> Result<Self, KeyError> {
        let rest = match text.strip_prefix('.') {
            Some(rest) => Some(rest),
            None if text.is_empty() => None,
            None => return Err(KeyError::invalid("doesn't start with a dot")),
        };
        Ok(Self { rest, segment: 0 })
    }

    /// Takes the next segment's text.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when no segment is left or the escapes are broken.
    pub fn segment(&mut self) -> Result<Cow<'a, str>, KeyError> {
        self.segment += 1;
        let Some(rest) = self.rest else {
            return Err(KeyError::foreign("is missing").at(self.segment));
        };
        let (segment, rest) = rest.split_once('.').map_or((rest, None), |(segment, rest)| (segment, Some(rest)));
        self.rest = rest;
        unescape(segment).map_err(|error| error.at(self.segment))
    }

    fn finish(&self) -> Result<(), KeyError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(KeyError::foreign("is one too many").at(self.segment + 1)),
        }
    }
}

/// Appends the key's segments, each behind a dot.
pub(crate) fn encode<K: TopicKey>(key: &K, to: &mut String) {
    key.write(&mut KeyWriter::new(to));
}

/// Reads the text behind the topic's own address. What it accepts encodes to the same text again.
pub(crate) fn decode<K: TopicKey>(text: &str) -> Result<K, KeyError> {
    let mut reader = KeyReader::new(text)?;
    let key =
        K::read(&mut reader).map_err(|error| if error.segment == 0 { error.at(reader.segment) } else { error })?;
    reader.finish()?;
    let mut again = String::with_capacity(text.len());
    encode(&key, &mut again);
    if again == text { Ok(key) } else { Err(KeyError::invalid("is not in its canonical form").at(reader.segment)) }
}

const fn stands(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn unescape(segment: &str) -> Result<Cow<'_, str>, KeyError> {
    if segment == "%" {
        return Ok(Cow::Borrowed(""));
    }
    if segment.is_empty() {
        return Err(KeyError::invalid("is empty"));
    }
    if segment.bytes().all(stands) {
        return Ok(Cow::Borrowed(segment));
    }
    let digit = |byte: Option<u8>| match byte {
        Some(byte @ b'0'..=b'9') => Ok(byte - b'0'),
        Some(byte @ b'A'..=b'F') => Ok(byte - b'A' + 10),
        _ => Err(KeyError::invalid("has a `%` without two upper-case hex digits")),
    };
    let mut bytes = segment.bytes();
    let mut text = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => text.push(digit(bytes.next())? << 4 | digit(bytes.next())?),
            byte if stands(byte) => text.push(byte),
            _ => return Err(KeyError::invalid("holds a byte that must be escaped")),
        }
    }
    String::from_utf8(text).map(Cow::Owned).map_err(|_| KeyError::invalid("is not UTF-8"))
}

macro_rules! text_keys {
    ($($type:ty),*) => {$(
        impl TopicKey for $type {
            type Parts = (Self,);
            fn write(&self, to: &mut KeyWriter<'_>) {
                to.segment(self);
            }
            fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
                Ok(from.segment()?.into())
            }
        }
    )*};
}

text_keys!(String, Box<str>, std::sync::Arc<str>);

macro_rules! plain_keys {
    ($write:ident, $($type:ty: $problem:literal),*) => {$(
        impl TopicKey for $type {
            type Parts = (Self,);
            fn write(&self, to: &mut KeyWriter<'_>) {
                to.$write(*self);
            }
            fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
                from.segment()?.parse().map_err(|_| KeyError::invalid($problem))
            }
        }
    )*};
}

plain_keys!(
    integer, u8: "is no `u8`", u16: "is no `u16`", u32: "is no `u32`", u64: "is no `u64`",
    i8: "is no `i8`", i16: "is no `i16`", i32: "is no `i32`", i64: "is no `i64`", i128: "is no `i128`"
);
plain_keys!(plain, u128: "is no `u128`", bool: "is neither `true` nor `false`");

impl TopicKey for char {
    type Parts = (Self,);
    fn write(&self, to: &mut KeyWriter<'_>) {
        to.segment(self.encode_utf8(&mut [0; 4]));
    }
    fn read(from: &mut KeyReader<'_>) -> Result<Self, KeyError> {
        from.segment()?.parse().map_err(|_| KeyError::invalid("is not one character"))
    }
}

impl TopicKey for () {
    type Parts = ();
    fn write(&self, _: &mut KeyWriter<'_>) {}
    fn read(_: &mut KeyReader<'_>) -> Result<Self, KeyError> {
        Ok(())
    }
}

/// A value that stands for a key part of type `P`: the part itself, a reference to it, or `&str` for a text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't stand for a key part of type `{P}`",
    note = "give the part itself, a reference to it, or `&str` where the part is a `String`"
)]
pub trait PartLike<P> {
    /// Writes the part's segments.
    fn write_part(&self, to: &mut KeyWriter<'_>);
}

impl<P: TopicKey> PartLike<P> for P {
    fn write_part(&self, to: &mut KeyWriter<'_>) {
        self.write(to);
    }
}

impl<P: TopicKey> PartLike<P> for &P {
    fn write_part(&self, to: &mut KeyWriter<'_>) {
        self.write(to);
    }
}

impl PartLike<String> for &str {
    fn write_part(&self, to: &mut KeyWriter<'_>) {
        to.segment(self);
    }
}

/// A tuple of the first parts of a key whose [`TopicKey::Parts`] are `Parts`: one to all but the last.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no prefix of a key with the parts `{Parts}`",
    label = "not a prefix",
    note = "a prefix is a tuple of the key's first parts, at least one and at most all but the last, such as `(\"eu\",)`",
    note = "for every key use `subscribe_all` or `supervise_all`, and leave a durable's `under` out; for one use `subscribe` or `supervise`"
)]
pub trait PrefixOf<Parts> {
    /// Writes the prefix's segments.
    fn write_prefix(&self, to: &mut KeyWriter<'_>);
}

// One call for each length of a prefix; the inner lists are what may follow it.
macro_rules! prefixes {
    ($($part:ident: $value:ident @ $index:tt),+; $([$($rest:ident)+])+) => {
        prefixes!(@each ($($part: $value @ $index),+) $([$($rest)+])+);
    };
    (@each $prefix:tt $([$($rest:ident)+])+) => { $(prefixes!(@one $prefix [$($rest)+]);)+ };
    (@one ($($part:ident: $value:ident @ $index:tt),+) [$($rest:ident)+]) => {
        impl<$($part, $value: PartLike<$part>,)+ $($rest),+> PrefixOf<($($part,)+ $($rest,)+)> for ($($value,)+) {
            fn write_prefix(&self, to: &mut KeyWriter<'_>) {
                $(self.$index.write_part(to);)+
            }
        }
    };
}

prefixes!(A: X @ 0; [R1] [R1 R2] [R1 R2 R3] [R1 R2 R3 R4] [R1 R2 R3 R4 R5] [R1 R2 R3 R4 R5 R6] [R1 R2 R3 R4 R5 R6 R7]);
prefixes!(A: X @ 0, B: Y @ 1; [R1] [R1 R2] [R1 R2 R3] [R1 R2 R3 R4] [R1 R2 R3 R4 R5] [R1 R2 R3 R4 R5 R6]);
prefixes!(A: X @ 0, B: Y @ 1, C: Z @ 2; [R1] [R1 R2] [R1 R2 R3] [R1 R2 R3 R4] [R1 R2 R3 R4 R5]);
prefixes!(A: X @ 0, B: Y @ 1, C: Z @ 2, D: V @ 3; [R1] [R1 R2] [R1 R2 R3] [R1 R2 R3 R4]);
prefixes!(A: X @ 0, B: Y @ 1, C: Z @ 2, D: V @ 3, E: W @ 4; [R1] [R1 R2] [R1 R2 R3]);

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value)]
    fn round_trip<K: TopicKey + PartialEq + std::fmt::Debug>(key: K, text: &str) {
        let mut encoded = String::new();
        encode(&key, &mut encoded);
        assert_eq!(encoded, text);
        assert_eq!(decode::<K>(&encoded).as_ref(), Ok(&key));
    }

    #[test]
    fn leaves_round_trip_in_their_documented_text() {
        round_trip(String::new(), ".%");
        round_trip("a_B-9".to_owned(), ".a_B-9");
        round_trip("a.b:c".to_owned(), ".a%2Eb%3Ac");
        round_trip("%FF".to_owned(), ".%25FF");
        round_trip("%".to_owned(), ".%25");
        round_trip("é".to_owned(), ".%C3%A9");
        round_trip("cafe\u{301}".to_owned(), ".cafe%CC%81");
        round_trip("\u{0}\u{2028}🦀".to_owned(), ".%00%E2%80%A8%F0%9F%A6%80");
        round_trip("*>?[a]{b}\\^".to_owned(), ".%2A%3E%3F%5Ba%5D%7Bb%7D%5C%5E");
        round_trip(i128::MIN, ".-170141183460469231731687303715884105728");
        round_trip(u128::MAX, ".340282366920938463463374607431768211455");
        round_trip(u64::MAX, ".18446744073709551615");
        round_trip(i64::MIN, ".-9223372036854775808");
        round_trip(0_u8, ".0");
        round_trip(10_i32, ".10");
        round_trip(true, ".true");
        round_trip('.', ".%2E");
        round_trip((), "");
    }

    #[test]
    fn what_does_not_encode_to_itself_is_refused() {
        for text in [".007", ".+7", ".-0", ".", ".7.", ".7.8", "7", ".٧", ".256", ".%37", ""] {
            assert!(decode::<u8>(text).is_err(), "{text}");
        }
        for text in [".%e9", ".%C3", ".%", ".a%", ".%2", ".%41", ".a b", ".é", ".%%", "", "a"] {
            let decoded = decode::<String>(text);
            assert_eq!(decoded.is_ok(), text == ".%", "{text}");
        }
        assert!(decode::<()>(".a").is_err());
        assert_eq!(
            decode::<String>(".a%").unwrap_err().to_string(),
            "key segment 1 has a `%` without two upper-case hex digits"
        );
    }
}
