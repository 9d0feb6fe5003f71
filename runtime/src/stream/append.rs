use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::Instrument as _;

use super::bound::with_key;
use super::{Headers, MessageId, Origin, Receipt, Record, Stream};
use crate::batch::{answered, encoded, unencoded};
use crate::call::Call;
use crate::capability::{Log, Tombstones};
use crate::codec::{Encode, EncodeError};
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};
use crate::key::{KeyWriter, TopicKey};
use crate::stream::record::MOST_ID_BYTES;
use crate::telemetry;

/// One entry with its key and what else is to stand in its record, for
/// [`append_with`](Stream::append_with) and [`append_all`](Stream::append_all).
#[derive(Clone, Debug)]
#[must_use = "it is appended by `append_with` or `append_all`"]
pub struct Append<K, T> {
    key: K,
    entry: T,
    id: Option<String>,
    headers: Headers,
    problems: Vec<String>,
}

impl<'e, K, T> Append<&'e K, &'e T> {
    /// Takes an entry and its key.
    pub fn new(key: &'e K, entry: &'e T) -> Self {
        Self { key, entry, id: None, headers: Headers::default(), problems: Vec::new() }
    }
}

impl<'e, T> Append<(), &'e T> {
    /// Takes an entry that holds its own key.
    pub fn of(entry: &'e T) -> Self {
        Self { key: (), entry, id: None, headers: Headers::default(), problems: Vec::new() }
    }
}

impl<K, T> Append<K, T> {
    /// Gives the record an id of the caller's own, 1 to 256 bytes without control characters.
    ///
    /// Where the backend has [`Dedup`](crate::capability::Dedup), a second append with the id within the stream's window
    /// stores nothing and returns the first one's position. That makes it safe to repeat an append whose outcome is
    /// unknown. Elsewhere the id is a header and no more. Another payload under the same id is a duplicate too, so make
    /// ids of what is said, not of a counter that may start over.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        if id.is_empty() || id.len() > MOST_ID_BYTES || id.chars().any(char::is_control) {
            let what = if id.chars().any(char::is_control) {
                "holds a control character".to_owned()
            } else {
                format!("has {} bytes", id.len())
            };
            self.problems.push(format!("the id {what}; give 1 to {MOST_ID_BYTES} bytes of text"));
        }
        self.id = Some(id);
        self
    }

    /// Adds a header of the caller's own: the name in `[a-z0-9]{1,20}`, as `CloudEvents` has it, the value without control
    /// characters.
    ///
    /// These names are the library's: `specversion`, `id`, `source`, `type`, `time`, `partitionkey`, `traceparent`,
    /// `tracestate`, `tenant`, `attempt`, `data`, `datacontenttype`, `subject`.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        match self.headers.problem(name, &value) {
            Some(problem) => self.problems.push(problem),
            None => self.headers.push(name, value),
        }
        self
    }

    /// Adds the W3C trace context under which the entry was made: `traceparent`, such as
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`, and `tracestate`, which may be empty.
    pub fn trace_context(mut self, traceparent: &str, tracestate: &str) -> Self {
        if is_traceparent(traceparent)
            && tracestate.len() <= 512
            && tracestate.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        {
            self.headers.push("traceparent", traceparent.to_owned());
            if !tracestate.is_empty() {
                self.headers.push("tracestate", tracestate.to_owned());
            }
        } else {
            self.problems
                .push("the trace context isn't W3C's; give `version-trace-parent-flags` in lower-case hex".to_owned());
        }
        self
    }
}

impl<'e, K, T> Append<K, &'e T> {
    pub(super) fn entry(&self) -> &'e T {
        self.entry
    }
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(5, '-').collect();
    let hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    parts.iter().map(|part| part.len()).eq([2, 32, 16, 2]) && parts.iter().all(|part| hex(part)) && parts[0] != "ff"
}

impl<'e, K, T> From<(&'e K, &'e T)> for Append<&'e K, &'e T> {
    fn from((key, entry): (&'e K, &'e T)) -> Self {
        Self::new(key, entry)
    }
}

impl<'e, T> From<&'e T> for Append<(), &'e T> {
    fn from(entry: &'e T) -> Self {
        Self::of(entry)
    }
}

impl<T: StreamSpec, B: Log> Stream<T, B> {
    /// Appends one entry under a key, and returns when it is recorded, with its position.
    ///
    /// Key and entry are encoded at once, before the future is polled, so it borrows neither. It is sent at most once.
    ///
    /// # Errors
    ///
    /// `Encode`, `TooLarge` and `Invalid` (a key over its limit) come before anything is sent; so do `Overloaded` and
    /// `Closed` with the outcome `NotApplied`. `Absent` where the stream isn't there, `Exhausted` where it can take no
    /// more. `Timeout`, `Unavailable`, `Refused` and `Forbidden` say by their [`outcome`](Error::outcome) whether the
    /// entry may be there. Where it is unknown, only an append with an [id](Append::id) can be repeated safely.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the entry may or may not be appended.
    pub fn append<'a>(
        &'a self,
        key: &T::Key,
        entry: &T,
    ) -> impl Future<Output = Result<Receipt, Error>> + Send + use<'a, T, B>
    where
        T::Codec: Encode<T>,
    {
        self.send(self.encode(|to| key.write(to), entry))
    }

    /// Appends one entry with an id or headers of the caller's own. See [`append`](Self::append), and
    /// [`Append::id`] for what the id does.
    ///
    /// # Errors
    ///
    /// `Invalid` with everything that is wrong with id and headers; otherwise as [`append`](Self::append).
    ///
    /// # Cancel safety
    ///
    /// As [`append`](Self::append).
    pub fn append_with(&self, append: Append<&T::Key, &T>) -> Call<'_, Receipt>
    where
        T::Codec: Encode<T>,
    {
        Call::new(self.send(self.encode_with(append, TopicKey::write)))
    }

    /// Appends a tombstone under a key: a record without a payload, which removes what stands under the key where the log is
    /// compacted. It is read as a delivery that [is a tombstone](super::Delivery::is_tombstone).
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    ///
    /// # Cancel safety
    ///
    /// As [`append`](Self::append).
    pub fn append_tombstone(&self, key: &T::Key) -> Call<'_, Receipt>
    where
        B: Tombstones,
    {
        let record = self.record(|to| key.write(to), |_, _| Ok(())).map(|mut record| {
            record.tombstone = true;
            // The type of no content.
            record.origin = Arc::new(Origin { content_type: None, ..Origin::clone(&record.origin) });
            record
        });
        Call::new(self.send(record))
    }

    /// Appends several entries in order, as one operation, and returns each one's own outcome in that order.
    ///
    /// It takes pairs `(&key, &entry)` or [`Append`]s. An entry that can't be encoded fails alone; the others are
    /// appended. The order holds within a partition. An empty batch does nothing.
    ///
    /// # Errors
    ///
    /// `Overloaded`, `Closed` and `Invalid` (more than `batch_messages`) concern the whole batch, of which nothing was
    /// appended then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, any of the entries may or may not be appended.
    pub fn append_all<'a, 'e, I>(&'a self, entries: I) -> Call<'a, Vec<Result<Receipt, Error>>>
    where
        I: IntoIterator<Item: Into<Append<&'e T::Key, &'e T>>>,
        T: 'e,
        T::Key: 'e,
        T::Codec: Encode<T>,
    {
        let encode = |append: I::Item| self.encode_with(append.into(), TopicKey::write);
        Call::new(self.send_all(entries.into_iter().map(encode).collect()))
    }

    pub(super) fn encode(&self, write_key: impl FnOnce(&mut KeyWriter<'_>), entry: &T) -> Result<Record, Error>
    where
        T::Codec: Encode<T>,
    {
        self.record(write_key, |to, most| T::Codec::encode(entry, to, most))
    }

    /// Makes a record of a key and what writes the payload.
    fn record(
        &self,
        write_key: impl FnOnce(&mut KeyWriter<'_>),
        write: impl FnOnce(&mut Vec<u8>, usize) -> Result<(), EncodeError>,
    ) -> Result<Record, Error> {
        let limits = self.broker.limits();
        let (data, key) = with_key(write_key, |key| {
            let (bytes, most) = (key.map_or(0, str::len), limits.key_bytes);
            if bytes > most {
                let detail =
                    format!("the key has {bytes} bytes; `key_bytes` is {most}, so shorten the one or raise the other");
                return Err(self.error(ErrorKind::Invalid, Operation::Append).detail(detail));
            }
            // The key stands behind the payload, so that a record is one allocation.
            let mut end = 0;
            let encode = |to: &mut Vec<u8>| {
                write(to, limits.append_bytes)?;
                end = to.len();
                to.extend_from_slice(key.unwrap_or_default().as_bytes());
                Ok(())
            };
            let mut data = encoded(encode).map_err(|wrong| {
                let (kind, detail) = unencoded(&wrong, "append_bytes");
                self.error(kind, Operation::Append).detail(detail).source_of(wrong)
            })?;
            let key = key.map(|_| data.split_off(end));
            Ok((data, key))
        })?;
        let host = self.host();
        // What goes over the wire, so that it comes back as it was appended.
        let millis = host.now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let millis = u64::try_from(millis).unwrap_or(0);
        let mut record = Record::new(self.bound.address.origin().clone(), data);
        record.id = Some(MessageId::generate(millis, || host.random()));
        record.key = key;
        record.time = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        Ok(record)
    }

    pub(super) fn encode_with<K>(
        &self,
        append: Append<K, &T>,
        write_key: impl FnOnce(K, &mut KeyWriter<'_>),
    ) -> Result<Record, Error>
    where
        T::Codec: Encode<T>,
    {
        let Append { key, entry, id, headers, mut problems } = append;
        let limits = self.broker.limits();
        if headers.iter().len() > limits.headers {
            problems.push(format!("there are {} headers; `headers` is {}", headers.iter().len(), limits.headers));
        }
        if headers.bytes() > limits.header_bytes {
            problems.push(format!(
                "the headers have {} bytes; `header_bytes` is {}",
                headers.bytes(),
                limits.header_bytes
            ));
        }
        if !problems.is_empty() {
            return Err(self.error(ErrorKind::Invalid, Operation::Append).detail(problems.join("; ")));
        }
        let mut record = self.encode(|to| write_key(key, to), entry)?;
        if let Some(id) = id {
            record.id = Some(MessageId::read(&id));
            record.once = true;
        }
        record.headers = headers;
        Ok(record)
    }

    pub(super) fn send(
        &self,
        record: Result<Record, Error>,
    ) -> impl Future<Output = Result<Receipt, Error>> + Send + use<'_, T, B> {
        let span = telemetry::append(self.bound.declaration, self.broker.inner.system, 1);
        let traced = !span.is_none();
        let sending = async move {
            let inner = &*self.broker.inner;
            // The record is moved only behind this: held while it waits, it would be copied once more.
            let admitted = match &record {
                Ok(_) => inner.host.shared().admit().await.map(Some),
                Err(_) => Ok(None),
            };
            let sent = match (record, admitted) {
                (Err(error), _) => Err(error),
                (_, Err(kind)) => Err(self.error(kind, Operation::Append)),
                (Ok(record), Ok(_place)) => {
                    let appended = B::append(&inner.client, &self.bound.address, record, self.durability).await;
                    appended.map_err(|failed| self.failed(failed, Operation::Append))
                }
            };
            if traced {
                telemetry::published(&sent);
            }
            sent
        };
        sending.instrument(span)
    }

    pub(super) fn send_all(
        &self,
        records: Vec<Result<Record, Error>>,
    ) -> impl Future<Output = Result<Vec<Result<Receipt, Error>>, Error>> + Send + use<'_, T, B> {
        let span = telemetry::append(self.bound.declaration, self.broker.inner.system, records.len());
        let traced = !span.is_none();
        let sending = async move {
            let sent = self.send_admitted(records).await;
            if traced {
                telemetry::published(&sent);
            }
            sent
        };
        sending.instrument(span)
    }

    async fn send_admitted(&self, records: Vec<Result<Record, Error>>) -> Result<Vec<Result<Receipt, Error>>, Error> {
        let inner = &*self.broker.inner;
        let most = inner.host.limits().batch_messages;
        if records.len() > most {
            let detail = format!("{} entries; `batch_messages` is {most}, so append in several", records.len());
            return Err(self.error(ErrorKind::Invalid, Operation::Append).detail(detail));
        }
        let _place = inner.host.shared().admit().await.map_err(|kind| self.error(kind, Operation::Append))?;
        let send = |outgoing| B::append_all(&inner.client, &self.bound.address, outgoing, self.durability);
        Ok(answered(records, send, |failed| self.failed(failed, Operation::Append)).await)
    }
}
