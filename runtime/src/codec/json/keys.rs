//! Writes the entries of a map, each key once.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher as _, RandomState},
};

use serde::{Serialize, ser};

use super::{
    super::error::{EncodeErrorKind as Kind, Step},
    is_reserved,
    key::KeyWriter,
    write::{Done, Failure, Writer},
};

/// How many keys are compared one by one before a table pays.
const COMPARED: usize = 16;

/// A map that is being written. Keys are compared as the text that they became.
pub(super) struct Entries<'s, 'o> {
    writer: &'s mut Writer<'o>,
    outer_heads: usize,
    /// Where the last key ends in the buffer, or 0 once keys came out of order.
    last_end: usize,
    table: Option<Box<Table>>,
}

/// Finds the key of a hash. Keys that share a hash are found by comparing all, which no one can bring about on purpose.
#[derive(Default)]
struct Table {
    hasher: RandomState,
    heads: HashMap<u64, usize>,
}

impl<'s, 'o> Entries<'s, 'o> {
    #[inline]
    pub(super) fn open(writer: &'s mut Writer<'o>) -> Result<Self, Failure> {
        writer.descend()?;
        let outer_heads = writer.heads.len();
        Ok(Self { writer, outer_heads, last_end: usize::MAX, table: None })
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        let first = self.last_end == usize::MAX;
        self.writer.out.push(if first { b'{' } else { b',' });
        let start = self.writer.out.len();
        key.serialize(KeyWriter(&mut *self.writer))?;
        let end = self.writer.out.len();
        let text = &self.writer.out[start..end];
        if text.starts_with(br#""$serde_json"#) && std::str::from_utf8(&text[1..text.len() - 1]).is_ok_and(is_reserved)
        {
            return Err(Failure::new(Kind::ReservedKey));
        }
        if first {
            self.last_end = end;
        } else {
            self.admit(start, end)?;
        }
        self.writer.heads.push(start - self.writer.base);
        self.writer.out.push(b':');
        Ok(())
    }

    /// Refuses a key that the object has already. Sorted keys, as in a `BTreeMap`, cost one comparison each.
    fn admit(&mut self, start: usize, end: usize) -> Done {
        let heads = &self.writer.heads;
        let payload = &self.writer.out[self.writer.base..];
        let key = &self.writer.out[start..end];
        if self.last_end != 0 {
            let last = self.writer.base + heads.get(heads.len() - 1);
            if self.writer.out[last..self.last_end] < *key {
                self.last_end = end;
                return Ok(());
            }
            self.last_end = 0;
        }
        // A quote in a key is escaped, so the closing quote ends the comparison at the whole key.
        let is_at = |head: usize| payload[head..].starts_with(key);
        let own = self.outer_heads..heads.len();
        let repeated = if own.len() < COMPARED {
            own.clone().any(|index| is_at(heads.get(index)))
        } else {
            let table = self.table.get_or_insert_default();
            for index in own.start + table.heads.len()..own.end {
                let head = heads.get(index);
                let len = text_len(&payload[head..]);
                table.heads.entry(table.hasher.hash_one(&payload[head..head + len])).or_insert(head);
            }
            match table.heads.entry(table.hasher.hash_one(key)) {
                Entry::Vacant(place) => {
                    place.insert(start - self.writer.base);
                    false
                }
                Entry::Occupied(place) => is_at(*place.get()) || own.clone().any(|index| is_at(heads.get(index))),
            }
        };
        if repeated { Err(Failure::new(Kind::DuplicateKey)) } else { Ok(()) }
    }

    #[inline]
    fn close(self) {
        if self.last_end == usize::MAX {
            self.writer.out.push(b'{');
        }
        self.writer.out.push(b'}');
        self.writer.heads.truncate(self.outer_heads);
        self.writer.ascend();
    }
}

/// Measures the string at the start of `json`, quotes included.
fn text_len(json: &[u8]) -> usize {
    let mut at = 1;
    while json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

impl ser::SerializeMap for Entries<'_, '_> {
    type Ok = ();
    type Error = Failure;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        self.key(key)
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value
            .serialize(&mut *self.writer)
            .and_then(|()| self.writer.check_limit())
            .map_err(|failure| failure.at(Step::Entry))
    }

    #[inline]
    fn end(self) -> Done {
        self.close();
        Ok(())
    }
}
