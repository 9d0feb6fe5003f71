//! What the second pass knows: where it is, what it expected, and what is wrong.

use std::{
    cell::{Cell, RefCell},
    io,
};

use serde::de::{self, Expected};

use super::super::error::{DecodeError, DecodeErrorKind as Kind, Step, path};

/// What all readers of one pass share.
pub(super) struct Context<'t> {
    /// Says that a `RawValue` was read.
    verbatim: Cell<bool>,
    trace: Option<&'t Trace<'t>>,
}

impl<'t> Context<'t> {
    #[inline]
    pub(super) fn new(trace: Option<&'t Trace<'t>>) -> Self {
        Self { verbatim: Cell::new(false), trace }
    }

    #[inline]
    pub(super) fn note_verbatim(&self) {
        self.verbatim.set(true);
    }

    #[inline]
    pub(super) fn has_verbatim(&self) -> bool {
        self.verbatim.get()
    }

    pub(super) fn trace(&self) -> Option<&'t Trace<'t>> {
        self.trace
    }

    pub(super) fn expect(&self, visitor: &dyn Expected) {
        if let Some(trace) = self.trace {
            trace.here.borrow_mut().expected = visitor.to_string();
        }
    }

    /// Reads a value below one more step of the path.
    pub(super) fn at<T, E>(&self, step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let Some(trace) = self.trace else { return read() };
        let outside = trace.enter(step);
        let value = read();
        if value.is_ok() {
            trace.leave(outside);
        }
        value
    }

    /// Makes the error that ends a pass. In the first pass its text is never seen.
    #[cold]
    pub(super) fn fail<E: de::Error>(&self, kind: Kind) -> E {
        if let Some(trace) = self.trace {
            trace.kind.set(Some(kind));
        }
        E::custom("refused")
    }
}

/// The place of the second pass.
pub(super) struct Trace<'p> {
    text: &'p str,
    /// How many bytes the parser took.
    taken: Cell<usize>,
    steps: RefCell<Vec<Step>>,
    here: RefCell<Here>,
    kind: Cell<Option<Kind>>,
}

/// What is expected at the innermost value.
#[derive(Clone, Default)]
struct Here {
    expected: String,
    fields: &'static [&'static str],
}

impl<'p> Trace<'p> {
    pub(super) fn new(text: &'p str) -> Self {
        Self { text, taken: Cell::new(0), steps: RefCell::default(), here: RefCell::default(), kind: Cell::new(None) }
    }

    /// Hands the text to the parser byte by byte.
    pub(super) fn bytes(&self) -> Bytes<'_, 'p> {
        Bytes(self)
    }

    /// Goes into a value. The steps stay when it fails.
    fn enter(&self, step: Step) -> Here {
        self.steps.borrow_mut().push(step);
        self.here.borrow().clone()
    }

    fn leave(&self, outside: Here) {
        self.steps.borrow_mut().pop();
        *self.here.borrow_mut() = outside;
    }

    pub(super) fn set_fields(&self, fields: &'static [&'static str]) {
        self.here.borrow_mut().fields = fields;
    }

    /// Returns the text of the number that the parser has just read.
    pub(super) fn number(&self) -> &'p str {
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let taken = &self.text.as_bytes()[..self.taken.get()];
        // The parser may have looked at one byte after the number.
        let end = taken.iter().rposition(is_number).map_or(0, |last| last + 1);
        let start = taken[..end].iter().rposition(|byte| !is_number(byte)).map_or(0, |before| before + 1);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Words the parser's error without what it quotes from the payload.
    pub(super) fn explain(&self, error: &serde_json::Error) -> DecodeError {
        let message = error.to_string();
        let kind = self.kind.get().unwrap_or_else(|| classify(&message, error.classify()));
        let here = self.here.borrow();
        let mut steps = self.steps.borrow().clone();
        if let Kind::MissingField | Kind::DuplicateKey = kind {
            // Only a name from the schema is shown; anything else in the message may be payload.
            steps.extend(
                named(&message)
                    .and_then(|name| here.fields.iter().find(|field| **field == name))
                    .copied()
                    .map(Step::Field),
            );
        }
        let (line, column) = match error.line() {
            0 => position(&self.text.as_bytes()[..self.taken.get()]),
            line => (line, error.column()),
        };
        let shown = DecodeError::new(kind).at(path(&steps)).position(line, column);
        match kind {
            Kind::Mismatch | Kind::OutOfRange if !here.expected.is_empty() => shown.expecting(here.expected.as_str()),
            _ => shown,
        }
    }
}

/// Tells kinds apart by how `serde` and `serde_json` begin their messages.
fn classify(message: &str, category: serde_json::error::Category) -> Kind {
    const KINDS: [(&str, Kind); 12] = [
        ("recursion limit exceeded", Kind::TooDeep),
        ("number out of range", Kind::OutOfRange),
        ("JSON number out of range", Kind::OutOfRange),
        ("lone leading surrogate", Kind::InvalidUnicode),
        ("invalid unicode code point", Kind::InvalidUnicode),
        ("unexpected end of hex escape", Kind::InvalidUnicode),
        ("missing field `", Kind::MissingField),
        ("duplicate field `", Kind::DuplicateKey),
        ("unknown field `", Kind::UnknownField),
        ("unknown variant `", Kind::UnknownVariant),
        ("invalid type: ", Kind::Mismatch),
        ("invalid length ", Kind::Mismatch),
    ];
    if let Some(value) = message.strip_prefix("invalid value: ") {
        // Most often a number that doesn't fit its type.
        return if value.starts_with("integer") { Kind::OutOfRange } else { Kind::Mismatch };
    }
    match KINDS.iter().find(|(start, _)| message.starts_with(start)) {
        Some((_, kind)) => *kind,
        None if category == serde_json::error::Category::Data => Kind::Refused,
        None => Kind::Syntax,
    }
}

/// Returns the first name in backticks.
fn named(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}

/// Says at which line and column the byte after `before` stands, both counted from 1.
pub(super) fn position(before: &[u8]) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for byte in before {
        if *byte == b'\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    (line, column)
}

/// Reads the text while the trace looks on.
pub(super) struct Bytes<'t, 'p>(&'t Trace<'p>);

impl io::Read for Bytes<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let taken = self.0.taken.get();
        let rest = &self.0.text.as_bytes()[taken..];
        let Some((place, byte)) = into.first_mut().zip(rest.first()) else {
            return Ok(0);
        };
        *place = *byte;
        self.0.taken.set(taken + 1);
        Ok(1)
    }
}
