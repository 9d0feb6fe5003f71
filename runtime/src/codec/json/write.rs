//! The buffer that a payload is written to, with its limits.

use serde::{Serialize as _, Serializer as _, ser};

use super::{
    super::error::{DecodeErrorKind, EncodeError, EncodeErrorKind as Kind, Step, path},
    decode,
};

/// How deep arrays and objects nest; one less than the depth at which `serde_json` refuses to read.
const MAX_DEPTH: u8 = 127;
/// How many keys of open objects are noted without an allocation.
const INLINE_HEADS: usize = 32;

/// Ends serialisation. The steps are collected on the way out, so that success pays nothing for the path.
#[derive(Debug)]
pub(super) struct Failure(Box<(Kind, Vec<Step>)>);

impl Failure {
    #[cold]
    pub(super) fn new(kind: Kind) -> Self {
        Self(Box::new((kind, Vec::new())))
    }

    #[cold]
    pub(super) fn at(mut self, step: Step) -> Self {
        self.0.1.push(step);
        self
    }

    #[cold]
    pub(super) fn into_error(self) -> EncodeError {
        let (kind, mut steps) = *self.0;
        steps.reverse();
        EncodeError::new(kind).at(path(&steps))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.0.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl ser::Error for Failure {
    /// Drops the message of a hand-written `Serialize`: it may quote the value.
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self::new(Kind::Refused)
    }
}

pub(super) type Done = Result<(), Failure>;

/// Appends JSON to a buffer. Scalars and escapes are `serde_json`'s own text.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    /// Where the payload begins in `out`.
    pub(super) base: usize,
    /// How long `out` may get.
    end: usize,
    limit: usize,
    levels_left: u8,
    /// Says that verbatim JSON was copied in: its depth is checked with the finished payload.
    pub(super) verbatim: bool,
    pub(super) heads: Heads,
}

impl<'o> Writer<'o> {
    #[inline]
    pub(super) fn new(out: &'o mut Vec<u8>, limit: usize) -> Self {
        let base = out.len();
        // Heads are 32 bits wide.
        let end = base.saturating_add(limit.min(u32::MAX as usize));
        Self { out, base, end, limit, levels_left: MAX_DEPTH, verbatim: false, heads: Heads::new() }
    }

    /// Checks the finished payload.
    #[inline]
    pub(super) fn finish(&mut self) -> Done {
        self.check_limit()?;
        if self.verbatim { check_verbatim(&self.out[self.base..]) } else { Ok(()) }
    }

    /// Is called after each value in an array or object, so that the buffer gets at most one scalar past the limit.
    #[inline]
    pub(super) fn check_limit(&self) -> Done {
        if self.out.len() > self.end { Err(self.too_large()) } else { Ok(()) }
    }

    /// Is called before a value that takes at least `len` bytes.
    #[inline]
    pub(super) fn check_room(&self, len: usize) -> Done {
        if len > self.end.saturating_sub(self.out.len()) { Err(self.too_large()) } else { Ok(()) }
    }

    #[cold]
    fn too_large(&self) -> Failure {
        Failure::new(Kind::TooLarge { limit: self.limit })
    }

    #[inline]
    pub(super) fn descend(&mut self) -> Done {
        match self.levels_left.checked_sub(1) {
            Some(left) => {
                self.levels_left = left;
                Ok(())
            }
            None => Err(Failure::new(Kind::TooDeep)),
        }
    }

    #[inline]
    pub(super) fn ascend(&mut self) {
        self.levels_left += 1;
    }

    #[inline]
    pub(super) fn json(&mut self) -> serde_json::Serializer<&mut Vec<u8>> {
        serde_json::Serializer::new(&mut *self.out)
    }

    /// Writes a string with its quotes.
    #[inline]
    pub(super) fn string(&mut self, text: &str) -> Done {
        self.check_room(text.len())?;
        if is_plain(text) {
            self.out.reserve(text.len() + 2);
            self.out.push(b'"');
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
            Ok(())
        } else {
            written(self.json().serialize_str(text))
        }
    }

    /// Writes a piece of a string without quotes.
    pub(super) fn piece(&mut self, text: &str) -> Done {
        self.check_room(text.len())?;
        if is_plain(text) {
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let start = self.out.len();
        written(text.serialize(&mut self.json()))?;
        self.out.remove(start);
        self.out.pop();
        Ok(())
    }
}

/// Checks JSON that wasn't written here.
#[cold]
pub(super) fn check_verbatim(json: &[u8]) -> Done {
    decode::check(json).map_err(|error| {
        Failure::new(match error.kind() {
            DecodeErrorKind::DuplicateKey => Kind::DuplicateKey,
            DecodeErrorKind::ReservedKey => Kind::ReservedKey,
            DecodeErrorKind::TooDeep => Kind::TooDeep,
            _ => Kind::Refused,
        })
    })
}

/// Turns `serde_json`'s result for a scalar into ours. A `Vec` takes everything, so there is no error to look at.
#[inline]
pub(super) fn written(result: serde_json::Result<()>) -> Done {
    result.map_err(|_| Failure::new(Kind::Other))
}

/// Says whether a string is written as it stands.
#[inline]
pub(super) fn is_plain(text: &str) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // The high bit of each byte that is zero; a byte above a zero may be set too, which costs no more than the slow path.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let special = |word: u64| {
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        control | zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')))
    };
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    words.iter().all(|word| special(u64::from_le_bytes(*word)) == 0)
        && rest.iter().all(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\')
}

/// Where the keys of the open objects begin in the payload, innermost last.
pub(super) struct Heads {
    inline: [u32; INLINE_HEADS],
    spill: Vec<u32>,
    len: usize,
}

impl Heads {
    #[inline]
    fn new() -> Self {
        Self { inline: [0; INLINE_HEADS], spill: Vec::new(), len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, head: usize) {
        // The payload is at most `u32::MAX` bytes and one scalar long; past the limit the next check refuses it.
        let head = u32::try_from(head).unwrap_or(u32::MAX);
        match self.inline.get_mut(self.len) {
            Some(place) => *place = head,
            None => self.spill(head),
        }
        self.len += 1;
    }

    #[cold]
    #[inline(never)]
    fn spill(&mut self, head: u32) {
        self.spill.truncate(self.len - INLINE_HEADS);
        self.spill.push(head);
    }

    /// Forgets the keys of an object that is closed.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = len;
    }

    pub(super) fn get(&self, index: usize) -> usize {
        let head = self.inline.get(index).or_else(|| self.spill.get(index - INLINE_HEADS));
        *head.expect("only keys that were noted are asked for") as usize
    }
}
