use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

/// A record as a backend carries it: `CloudEvents` attributes and a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The message's id.
    pub id: Option<MessageId>,
    /// Whether the id is the caller's own, so that a backend with [`Dedup`](crate::capability::Dedup) stores it once.
    pub once: bool,
    /// The key's encoded text, never empty.
    pub key: Option<Bytes>,
    /// Source, type and content type, which most records of a stream share.
    pub origin: Arc<Origin>,
    /// When it was produced, by the producer's clock, in milliseconds.
    pub time: Option<SystemTime>,
    /// `traceparent`, `tracestate`, `tenant` and the caller's own.
    pub headers: Headers,
    /// The payload. Empty in a tombstone.
    pub data: Bytes,
    /// Whether there is no payload at all, which in a compacted log removes what stands under the key. Only Kafka knows it.
    pub tombstone: bool,
}

impl Record {
    /// Makes a record with a payload and nothing else.
    #[must_use]
    pub fn new(origin: Arc<Origin>, data: Bytes) -> Self {
        Self {
            id: None,
            once: false,
            key: None,
            origin,
            time: None,
            headers: Headers::default(),
            data,
            tombstone: false,
        }
    }
}

/// What most records of a stream share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "backends make it from what they read")]
pub struct Origin {
    /// `source`: `/{application}/{environment}`.
    pub source: Option<String>,
    /// `type`: `{name}.v{version}`.
    pub event_type: Option<String>,
    /// The payload's media type.
    pub content_type: Option<String>,
}

/// A message's id: a generated UUID (version 7) or a caller's own text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(Id);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    Uuid(Uuid),
    Text(Box<str>),
}

/// A caller's id may have so many bytes.
pub(crate) const MOST_ID_BYTES: usize = 256;

impl MessageId {
    /// Takes an id as it stands on the wire. A UUID in its usual form is kept as a number.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let canonical = |uuid: &Uuid| uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text;
        match Uuid::try_parse(text).ok().filter(canonical) {
            Some(uuid) => Self(Id::Uuid(uuid)),
            None => Self(Id::Text(text.into())),
        }
    }

    pub(crate) fn generate(millis: u64, mut random: impl FnMut() -> u64) -> Self {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&random().to_ne_bytes());
        bytes[8..].copy_from_slice(&random().to_ne_bytes()[..2]);
        Self(Id::Uuid(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()))
    }

    /// Gives the text to a function, without an allocation.
    pub fn with_text<R>(&self, take: impl FnOnce(&str) -> R) -> R {
        match &self.0 {
            Id::Uuid(uuid) => take(uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            Id::Text(text) => take(text),
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.pad(text))
    }
}

type Pairs = Vec<(Box<str>, Bytes)>;

/// A record's headers beside its own attributes, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// In a box, since most records have none: a record of 128 bytes is moved without a call.
    #[allow(clippy::box_collection, reason = "the vector's own three words are what shouldn't stand here")]
    pairs: Option<Box<Pairs>>,
}

/// Attributes and extensions that this library writes itself.
const RESERVED: [&str; 13] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "partitionkey",
    "traceparent",
    "tracestate",
    "tenant",
    "attempt",
    "data",
    "datacontenttype",
    "subject",
];
const MOST_NAME_BYTES: usize = 20;

impl Headers {
    /// Returns a header's value, where it is there and is text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_bytes(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns a header's value as it stands on the wire.
    #[must_use]
    pub fn get_bytes(&self, name: &str) -> Option<&Bytes> {
        self.pairs().iter().find(|(have, _)| **have == *name).map(|(_, value)| value)
    }

    /// Iterates over names and values.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Bytes)> {
        self.pairs().iter().map(|(name, value)| (&**name, value))
    }

    fn pairs(&self) -> &[(Box<str>, Bytes)] {
        self.pairs.as_ref().map_or(&[], |pairs| pairs)
    }

    /// Says whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_none()
    }

    /// Appends a header as it was read. Backends call it; a caller's own go through
    /// [`Append::header`](crate::Append::header), which checks them.
    pub fn push(&mut self, name: impl Into<Box<str>>, value: impl Into<Bytes>) {
        self.pairs.get_or_insert_default().push((name.into(), value.into()));
    }

    /// What is wrong with a header of a caller's, if anything.
    pub(crate) fn problem(&self, name: &str, value: &str) -> Option<String> {
        let shown: String = name.chars().take(MOST_NAME_BYTES + 1).collect();
        let fits = (1..=MOST_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits {
            return Some(format!("the header `{shown}` doesn't match `[a-z0-9]{{1,20}}`; rename it"));
        }
        if RESERVED.contains(&name) {
            return Some(format!("the header `{shown}` is reserved; rename it"));
        }
        if self.get_bytes(name).is_some() {
            return Some(format!("the header `{shown}` is there twice; leave one out"));
        }
        // CloudEvents allows no control characters in a string attribute.
        if value.chars().any(char::is_control) {
            return Some(format!("the value of the header `{shown}` holds a control character; encode it"));
        }
        None
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.pairs().iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// The partition of a key among so many: murmur2 of its encoded text, with the sign masked, as Kafka's Java client has
/// it.
///
/// # Panics
///
/// With no partitions.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    assert!(partitions > 0, "a stream has at least one partition");
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // A key is at most some kilobytes, so its length fits.
    let mut h = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        h ^= rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ h >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_kafkas_java_client_puts_them() {
        assert_eq!(partition_of(b"TT0124", 15), 10);
        assert_eq!(partition_of(b"354afe16-939a-4ea8-8e17-8bb0840b6886", 10), 4);
        // From the Java client's own tests.
        for (text, hash) in [("21", -973_932_308), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)]
        {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn ids_come_back_as_they_were_written() {
        let generated = MessageId::generate(0x0192_3456_789a, || 0x0123_4567_89ab_cdef).to_string();
        assert!(generated.starts_with("01923456-789a-7"), "{generated}");
        for text in [&*generated, "order-7", "", "01923456789A7DEF", "01923456-789A-7DEF-8123-456789ABCDEF"] {
            assert_eq!(MessageId::read(text).to_string(), text);
        }
    }
}
