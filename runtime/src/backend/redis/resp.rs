//! Replies in RESP3, read in two steps: first where one ends, over any chunks, then what is in it, as slices of one
//! buffer.

use bytes::Bytes;

use super::fault::Fault;

/// A server takes and gives no longer text (`proto-max-bulk-len`).
const MOST_TEXT_BYTES: usize = 512 << 20;
/// No reply that is asked for is longer.
const MOST_REPLY_BYTES: usize = 1 << 30;
/// No line that isn't a text's content is longer, errors included.
const MOST_LINE_BYTES: usize = 64 << 10;
/// No reply that is asked for is deeper.
const MOST_DEPTH: usize = 16;

/// Finds where a reply ends. It keeps what it knows between two chunks, so that no byte is looked at twice.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Up to where the values are known.
    at: usize,
    /// Up to where no line's end is.
    searched: usize,
    /// How many values are still to come. 0 before a reply's first byte.
    missing: usize,
}

impl Scan {
    /// Returns the length of the reply at the front of the bytes, where it is all there. The next call is for the next
    /// reply, at the front of what is left then.
    pub(super) fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut missing = if self.at == 0 { 1 } else { self.missing };
        let mut at = self.at;
        while missing > 0 {
            let from = self.searched.max(at);
            let Some(end) = line_end(bytes, from)? else {
                if bytes.len() - at > MOST_LINE_BYTES {
                    return Err(Fault::malformed());
                }
                self.keep(at, missing, bytes.len().saturating_sub(1));
                return Ok(None);
            };
            let Some((kind, rest)) = bytes[at..end].split_first() else { return Err(Fault::malformed()) };
            let mut next = end + 2;
            let mut more = 0;
            match kind {
                b'$' | b'=' | b'!' => {
                    if let Some(length) = count(rest)? {
                        if length > MOST_TEXT_BYTES {
                            return Err(Fault::malformed());
                        }
                        next += length + 2;
                        if bytes.len() < next {
                            self.keep(at, missing, end);
                            if next > MOST_REPLY_BYTES {
                                return Err(Fault::oversized());
                            }
                            return Ok(None);
                        }
                        if bytes[next - 2..next] != *b"\r\n" {
                            return Err(Fault::malformed());
                        }
                    }
                }
                b'*' | b'~' | b'>' => more = count(rest)?.unwrap_or(0),
                b'%' => more = count(rest)?.unwrap_or(0).checked_mul(2).ok_or_else(Fault::malformed)?,
                // What follows an attribute is the value that it is about.
                b'|' => {
                    let pairs = count(rest)?.unwrap_or(0).checked_mul(2);
                    more = pairs.and_then(|values| values.checked_add(1)).ok_or_else(Fault::malformed)?;
                }
                b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
                _ => return Err(Fault::malformed()),
            }
            missing = (missing - 1).checked_add(more).ok_or_else(Fault::malformed)?;
            at = next;
            if at > MOST_REPLY_BYTES || missing > MOST_REPLY_BYTES {
                return Err(Fault::oversized());
            }
        }
        *self = Self::default();
        Ok(Some(at))
    }

    fn keep(&mut self, at: usize, missing: usize, searched: usize) {
        *self = Self { at, searched, missing };
    }
}

/// Where the line ends, from there on.
fn line_end(bytes: &[u8], from: usize) -> Result<Option<usize>, Fault> {
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'\r' {
            return match bytes.get(at + 1) {
                None => Ok(None),
                Some(b'\n') => Ok(Some(at)),
                Some(_) => Err(Fault::malformed()),
            };
        }
        at += 1;
    }
    Ok(None)
}

/// A length, `None` for -1, which is how nothing was written in RESP2.
fn count(digits: &[u8]) -> Result<Option<usize>, Fault> {
    if digits == b"-1" {
        return Ok(None);
    }
    unsigned(digits).and_then(|number| usize::try_from(number).ok()).map(Some).ok_or_else(Fault::malformed)
}

fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let mut number = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(number)
}

pub(super) fn signed(digits: &[u8]) -> Option<i64> {
    match digits.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(digits.strip_prefix(b"+").unwrap_or(digits))?).ok(),
    }
}

/// An id of a stream's entry, as its two halves.
pub(super) fn id(text: &[u8]) -> Option<(u64, u64)> {
    let dash = text.iter().position(|byte| *byte == b'-')?;
    Some((unsigned(&text[..dash])?, unsigned(&text[dash + 1..])?))
}

/// Reads a whole reply, one piece after another.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(frame: &'a Bytes) -> Self {
        Self { frame, at: 0 }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.frame.len() - self.at.min(self.frame.len())
    }

    fn line(&mut self) -> Result<(u8, &'a [u8]), Fault> {
        let end = line_end(self.frame, self.at)?.ok_or_else(Fault::malformed)?;
        let (kind, rest) = self.frame[self.at..end].split_first().ok_or_else(Fault::malformed)?;
        self.at = end + 2;
        Ok((*kind, rest))
    }

    /// Enters a list (or a map, as twice as many values), and returns how many values are in it. `None` for nothing.
    pub(super) fn list(&mut self) -> Result<Option<usize>, Fault> {
        match self.line()? {
            (b'*' | b'~' | b'>', digits) => count(digits),
            (b'%', digits) => Ok(count(digits)?.map(|pairs| pairs.saturating_mul(2))),
            // A text's place may be empty too.
            (b'_', _) | (b'$', b"-1") => Ok(None),
            _ => Err(Fault::malformed()),
        }
    }

    /// Takes a text.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let (kind, rest) = self.line()?;
        match kind {
            b'$' | b'=' => {
                let length = count(rest)?.ok_or_else(Fault::malformed)?;
                let from = self.at;
                let bytes = self.frame.get(from..from + length).ok_or_else(Fault::malformed)?;
                self.at = from + length + 2;
                Ok(bytes)
            }
            b'+' => Ok(rest),
            _ => Err(Fault::malformed()),
        }
    }

    /// Takes a text as a part of the reply's buffer.
    pub(super) fn bytes(&mut self) -> Result<Bytes, Fault> {
        let text = self.text()?;
        Ok(self.frame.slice_ref(text))
    }

    /// Takes a number.
    pub(super) fn number(&mut self) -> Result<i64, Fault> {
        match self.line()? {
            (b':', digits) => signed(digits).ok_or_else(Fault::malformed),
            _ => Err(Fault::malformed()),
        }
    }

    /// Takes an entry's id.
    pub(super) fn id(&mut self) -> Result<(u64, u64), Fault> {
        id(self.text()?).ok_or_else(Fault::malformed)
    }

    /// Goes over exactly these bytes, where they come next.
    pub(super) fn skip_bytes(&mut self, expected: &[u8]) -> bool {
        let there = self.frame.get(self.at..self.at + expected.len()) == Some(expected);
        if there {
            self.at += expected.len();
        }
        there
    }

    /// Goes over one value, whatever it is.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        let length = Scan::default().frame(&self.frame[self.at..])?.ok_or_else(Fault::malformed)?;
        self.at += length;
        Ok(())
    }

    /// Takes one value, whatever it is, as it came.
    pub(super) fn frame(&mut self) -> Result<Bytes, Fault> {
        let from = self.at;
        self.skip()?;
        Ok(self.frame.slice(from..self.at))
    }

    /// Takes what is left, as it came.
    pub(super) fn rest(self) -> Bytes {
        self.frame.slice(self.frame.len() - self.left()..)
    }

    /// Takes one value, whatever it is.
    pub(super) fn value(&mut self) -> Result<Value, Fault> {
        self.value_within(MOST_DEPTH)
    }

    fn value_within(&mut self, depth: usize) -> Result<Value, Fault> {
        let depth = depth.checked_sub(1).ok_or_else(Fault::malformed)?;
        let before = self.at;
        let (kind, rest) = self.line()?;
        Ok(match kind {
            b'$' | b'=' if count(rest)?.is_some() => {
                self.at = before;
                let bytes = self.bytes()?;
                // A verbatim text begins with its format: `txt:`.
                Value::Text(if kind == b'=' { bytes.slice(bytes.len().min(4)..) } else { bytes })
            }
            b'$' | b'_' => Value::Nil,
            b'+' | b',' | b'(' => Value::Text(self.frame.slice_ref(rest)),
            b':' => Value::Number(signed(rest).ok_or_else(Fault::malformed)?),
            b'#' => Value::Number(i64::from(rest == b"t")),
            b'-' => Value::Refused(self.frame.slice_ref(rest)),
            b'!' => {
                let length = count(rest)?.ok_or_else(Fault::malformed)?;
                let from = self.at;
                let text = self.frame.get(from..from + length).ok_or_else(Fault::malformed)?;
                self.at = from + length + 2;
                Value::Refused(self.frame.slice_ref(text))
            }
            b'|' => {
                for _ in 0..count(rest)?.unwrap_or(0).saturating_mul(2) {
                    self.skip()?;
                }
                self.value_within(depth)?
            }
            b'*' | b'~' | b'>' | b'%' => match count(rest)? {
                None => Value::Nil,
                Some(length) => {
                    let length = if kind == b'%' { length.saturating_mul(2) } else { length };
                    // Each takes some bytes, so that a count can't ask for more room than its reply has.
                    let mut values = Vec::with_capacity(length.min(self.frame.len() - self.at));
                    for _ in 0..length {
                        values.push(self.value_within(depth)?);
                    }
                    Value::List(values)
                }
            },
            _ => return Err(Fault::malformed()),
        })
    }
}

/// A value of any kind. A map is a list of keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Number(i64),
    Text(Bytes),
    List(Vec<Value>),
    /// An error within a reply.
    Refused(Bytes),
}

impl Value {
    pub(super) fn number(&self) -> Result<u64, Fault> {
        match self {
            // What a server counts isn't negative.
            Self::Number(number) => Ok(u64::try_from(*number).unwrap_or_default()),
            _ => Err(Fault::malformed()),
        }
    }

    pub(super) fn list(&self) -> Result<&[Self], Fault> {
        match self {
            Self::List(values) => Ok(values),
            Self::Nil => Ok(&[]),
            _ => Err(Fault::malformed()),
        }
    }

    pub(super) fn text(&self) -> Result<&[u8], Fault> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(Fault::malformed()),
        }
    }

    pub(super) fn id(&self) -> Result<(u64, u64), Fault> {
        id(self.text()?).ok_or_else(Fault::malformed)
    }

    /// The value of a field, where this is a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Self::List(values) = self else { return None };
        let (pairs, _) = values.as_chunks::<2>();
        pairs
            .iter()
            .find(|[field, _]| matches!(field, Self::Text(text) if text == name.as_bytes()))
            .map(|[_, value]| value)
    }
}

#[cfg(test)]
mod tests;
