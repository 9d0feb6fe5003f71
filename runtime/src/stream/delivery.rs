use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::{Headers, MessageId, Position, Record};
use crate::capability::Stored;
use crate::codec::{Decode, DecodeError, DecodeErrorKind};
use crate::declaration::StreamSpec;
use crate::key::{self, KeyError};

/// A received record: key, value (or why it can't be decoded), position, attempt and headers.
pub struct Delivery<T: StreamSpec> {
    position: Position,
    attempt: u32,
    value: Result<T, Poison>,
    record: Record,
}

/// Why a record's payload isn't a value of its stream's type. It quotes nothing of the payload.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the record at `{position}` doesn't decode: {reason}")]
pub struct Poison {
    position: Position,
    #[source]
    reason: Arc<DecodeError>,
}

impl Poison {
    /// Returns where the record stands.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns what is wrong with the payload.
    #[must_use]
    pub fn reason(&self) -> &DecodeError {
        &self.reason
    }
}

impl<T: StreamSpec> Delivery<T> {
    pub(crate) fn decode(stored: Stored) -> Self
    where
        T::Codec: Decode<T>,
    {
        let Stored { position, attempt, record } = stored;
        let decoded = if record.tombstone {
            Err(DecodeError::new(DecodeErrorKind::Tombstone))
        } else {
            T::Codec::decode(&record.data)
        };
        let value = decoded.map_err(|reason| Poison { position, reason: Arc::new(reason) });
        Self { position, attempt, value, record }
    }

    /// Returns where the record stands.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns how often a group has delivered it, this time included. 1 at first, and for a plain read. A
    /// delivery that was given back, because nobody took it or a worker stopped, doesn't count.
    ///
    /// On NATS a repeat may come as attempt 1 again, after a server was killed or to another process that is bound to the
    /// durable: the server forgets what it hadn't written. So 1 doesn't mean that it never came before.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`Poison`] where the payload doesn't decode; [`data`](Self::data) has its bytes.
    pub fn value(&self) -> Result<&T, Poison> {
        self.value.as_ref().map_err(Clone::clone)
    }

    /// Returns the value and lets the rest go.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value).
    pub fn into_value(self) -> Result<T, Poison> {
        self.value
    }

    /// Decodes the key.
    ///
    /// # Errors
    ///
    /// [`KeyError`] where the record has no key of this type, as a record from elsewhere may.
    pub fn key(&self) -> Result<T::Key, KeyError> {
        let text = std::str::from_utf8(self.record.key.as_deref().unwrap_or_default());
        let text = text.map_err(|_| KeyError::invalid("isn't UTF-8"))?;
        // A key in an address begins with the dot that joins it.
        if text.is_empty() { key::decode("") } else { key::decode(&format!(".{text}")) }
    }

    /// Returns the key's bytes as they stand on the wire. `None` for the key `()`.
    #[must_use]
    pub fn key_bytes(&self) -> Option<&Bytes> {
        self.record.key.as_ref()
    }

    /// Returns the message's id. `None` only in a record from elsewhere. It is data, never authority.
    #[must_use]
    pub fn id(&self) -> Option<&MessageId> {
        self.record.id.as_ref()
    }

    /// Returns when it was produced, by the producer's clock.
    #[must_use]
    pub fn produced_at(&self) -> Option<SystemTime> {
        self.record.time
    }

    /// Returns the payload's media type.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.record.origin.content_type.as_deref()
    }

    /// Returns where it comes from (`source`): `/{application}/{environment}`. It is data, never authority.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.record.origin.source.as_deref()
    }

    /// Returns what it is (`type`): `{name}.v{version}`.
    #[must_use]
    pub fn event_type(&self) -> Option<&str> {
        self.record.origin.event_type.as_deref()
    }

    /// Returns the other headers: the trace context and the caller's own.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.record.headers
    }

    /// Says whether the record has no payload at all, which removes what stands under its key in a log that is compacted.
    /// Its [`value`](Self::value) is an error. Only Kafka has such records.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.record.tombstone
    }

    /// Returns the payload's bytes.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.record.data
    }
}

/// Shows neither key nor payload.
impl<T: StreamSpec> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("position", &self.position)
            .field("attempt", &self.attempt)
            .field("decoded", &self.value.is_ok())
            .finish_non_exhaustive()
    }
}
