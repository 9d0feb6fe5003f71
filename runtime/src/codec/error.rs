//! What can be wrong with a payload, without quoting it.

use std::fmt::{self, Write as _};

/// Says why a value can't be encoded, and in which field.
///
/// It holds the kind and the path of the field, never a value or a map's key, so it is safe to log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", At(path))]
pub struct EncodeError {
    kind: EncodeErrorKind,
    path: Box<str>,
}

/// The reason of an [`EncodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The payload is larger than the limit.
    #[error("the payload is larger than {limit} bytes; raise the limit or send a reference to the data")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A float is NaN or infinite, which the format can't say.
    #[error("the number is NaN or infinite; send an `Option` and `None` in its place")]
    NotFinite,
    /// Arrays and objects are nested deeper than readers accept.
    #[error("nested deeper than 127 levels; flatten the data or send it as text")]
    TooDeep,
    /// One object would hold a key twice.
    #[error("the object has a key twice; rename the field, tag or map key that is repeated")]
    DuplicateKey,
    /// A map's key has no form as text.
    #[error("a map's key isn't text; use a string, an integer, a bool, a char or a unit variant as key")]
    KeyNotText,
    /// A map's key is a word that the JSON library keeps for itself, so that the payload would decode to something else.
    #[error("a map's key is reserved by `serde_json`; rename it")]
    ReservedKey,
    /// The type's own `Serialize` refused the value.
    #[error("`Serialize` refused the value; send only values that the type can write")]
    Refused,
    /// The codec can't say what is wrong in another kind.
    #[error("the codec can't write the value")]
    Other,
}

impl EncodeError {
    /// Creates an error at the root of the payload.
    #[must_use]
    pub fn new(kind: EncodeErrorKind) -> Self {
        Self { kind, path: Box::default() }
    }

    /// Sets the path of the field, such as `items[3].price`. It may hold names from the schema only.
    #[must_use]
    pub fn at(mut self, path: impl Into<Box<str>>) -> Self {
        self.path = path.into();
        self
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> EncodeErrorKind {
        self.kind
    }

    /// Returns the path of the field, such as `items[3].price`; `*` stands for a map's key. Empty at the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Says why a payload can't be decoded, in which field and where in the text.
///
/// It holds the kind, the path of the field, the position and what the type expected, never a value or a key of the
/// payload, so it is safe to log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}{}{}", At(&detail.path), Expected(detail.expected.as_deref()), Position(detail.line, detail.column))]
pub struct DecodeError {
    kind: DecodeErrorKind,
    detail: Box<Detail>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Detail {
    path: Box<str>,
    expected: Option<Box<str>>,
    line: usize,
    column: usize,
}

/// The reason of a [`DecodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes aren't the format's syntax, or end too early.
    #[error("not valid JSON; send one complete JSON value")]
    Syntax,
    /// The bytes aren't UTF-8, or a string holds half of a surrogate pair.
    #[error("not valid Unicode; send UTF-8")]
    InvalidUnicode,
    /// The payload starts with a byte-order mark.
    #[error("starts with a byte-order mark; send UTF-8 without one")]
    ByteOrderMark,
    /// Something other than white space follows the value.
    #[error("data follows the value; send one value in each message")]
    TrailingData,
    /// Arrays and objects are nested deeper than 127 levels.
    #[error("nested deeper than 127 levels; flatten the data or send it as text")]
    TooDeep,
    /// One object holds a key twice.
    #[error("an object has a key twice; send each key once")]
    DuplicateKey,
    /// A key is a word that the JSON library keeps for itself.
    #[error("a key is reserved by `serde_json`; rename it")]
    ReservedKey,
    /// A number doesn't fit where it stands: over the type's range, or an integer that a dynamic value would round.
    #[error("the number doesn't fit; send a smaller one or read it as a larger type")]
    OutOfRange,
    /// A value has another type, range or length than the schema.
    #[error("the value has the wrong type, range or length")]
    Mismatch,
    /// A required field is missing. Its name is the end of the path.
    #[error("a required field is missing; send it or give it a default")]
    MissingField,
    /// A field isn't in the schema and the type denies unknown fields.
    #[error("a field isn't in the schema; send known fields only")]
    UnknownField,
    /// An enum's variant isn't in the schema.
    #[error("the variant isn't in the schema; send a known variant")]
    UnknownVariant,
    /// The type's own `Deserialize` refused the value.
    #[error("`Deserialize` refused the value; send only values that the type accepts")]
    Refused,
    /// There is no payload: the record is a tombstone, which removes what stands under its key.
    #[error("there is no payload: the record is a tombstone; ask `Delivery::is_tombstone` first")]
    Tombstone,
    /// The codec can't say what is wrong in another kind.
    #[error("the codec can't read the value")]
    Other,
}

impl DecodeError {
    /// Creates an error at the root of the payload.
    #[must_use]
    pub fn new(kind: DecodeErrorKind) -> Self {
        Self { kind, detail: Box::default() }
    }

    /// Sets the path of the field, such as `items[3].price`. It may hold names from the schema only.
    #[must_use]
    pub fn at(mut self, path: impl Into<Box<str>>) -> Self {
        self.detail.path = path.into();
        self
    }

    /// Sets the position in the text, both counted from 1.
    #[must_use]
    pub fn position(mut self, line: usize, column: usize) -> Self {
        (self.detail.line, self.detail.column) = (line, column);
        self
    }

    /// Sets what the type expected, in the words of its `Deserialize`.
    #[must_use]
    pub fn expecting(mut self, expected: impl Into<Box<str>>) -> Self {
        self.detail.expected = Some(expected.into());
        self
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// Returns the path of the field, such as `items[3].price`; `*` stands for a map's key. Empty at the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.detail.path
    }

    /// Returns what the type expected there, such as `u8` or `struct Order`.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        self.detail.expected.as_deref()
    }

    /// Returns the line where reading stopped, counted from 1; 0 if it isn't known.
    #[must_use]
    pub fn line(&self) -> usize {
        self.detail.line
    }

    /// Returns the byte in the line where reading stopped, which is the last of the value or the one after it, counted
    /// from 1; 0 if it isn't known.
    #[must_use]
    pub fn column(&self) -> usize {
        self.detail.column
    }
}

/// One step of a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A field of a struct. Its name is schema, so it may be shown.
    Field(&'static str),
    /// An element of an array.
    Index(usize),
    /// An entry of a map. Its key is payload, so it is never shown.
    Entry,
}

/// Writes steps, outermost first, as `items[3].price`. The middle of a long path is left out.
pub(super) fn path(steps: &[Step]) -> String {
    const SHOWN: usize = 8;
    let (first, last) = match steps.len() {
        0..=16 => (steps, &[][..]),
        len => (&steps[..SHOWN], &steps[len - SHOWN..]),
    };
    let mut path = String::new();
    for (index, step) in first.iter().chain(last).enumerate() {
        if index == SHOWN && !last.is_empty() {
            path.push_str("...");
        }
        match step {
            Step::Index(index) => write!(path, "[{index}]").expect("writing to a string succeeds"),
            Step::Field(name) => path.extend([if path.is_empty() { "" } else { "." }, name]),
            Step::Entry => path.push_str(if path.is_empty() { "*" } else { ".*" }),
        }
    }
    path
}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "`{}`: ", self.0) }
    }
}

struct Expected<'a>(Option<&'a str>);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |expected| write!(f, "; send {expected}"))
    }
}

struct Position(usize, usize);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " (line {}, column {})", self.0, self.1) }
    }
}
