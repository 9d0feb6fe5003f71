//! A record as a message with headers, and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use rdkafka::message::{BorrowedHeaders, Header, Headers as _, Message, OwnedHeaders};

use crate::capability::{Origin, Record};
use crate::stream::{Headers, MessageId};

const ID: &str = "ce_id";
const SOURCE: &str = "ce_source";
const TYPE: &str = "ce_type";
const TIME: &str = "ce_time";
const KEY: &str = "ce_partitionkey";
const VERSION: &str = "ce_specversion";
const CONTENT_TYPE: &str = "content-type";
/// Before the name of a header.
const PREFIX: &str = "ce_";

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static PARSER: DateTimeParser = DateTimeParser::new();

/// What a stream's own records have in common, as it was made and as it goes over the wire.
pub(in super::super) struct Known {
    origin: Arc<Origin>,
    headers: OwnedHeaders,
}

impl Known {
    pub(super) fn new(origin: &Arc<Origin>) -> Self {
        Self { origin: origin.clone(), headers: origin_headers(origin) }
    }
}

fn with(headers: OwnedHeaders, key: &str, value: &[u8]) -> OwnedHeaders {
    headers.insert(Header { key, value: Some(value) })
}

/// Specversion, source, type and content type.
fn origin_headers(origin: &Origin) -> OwnedHeaders {
    let Origin { source, event_type, content_type } = origin;
    let mut headers = with(OwnedHeaders::new_with_capacity(8), VERSION, b"1.0");
    for (name, value) in [(SOURCE, source), (TYPE, event_type), (CONTENT_TYPE, content_type)] {
        if let Some(value) = value {
            headers = with(headers, name, value.as_bytes());
        }
    }
    headers
}

/// The record's headers.
pub(super) fn headers(known: &Known, record: &Record) -> OwnedHeaders {
    let mut headers =
        if Arc::ptr_eq(&record.origin, &known.origin) { known.headers.clone() } else { origin_headers(&record.origin) };
    if let Some(id) = &record.id {
        headers = id.with_text(|text| with(headers, ID, text.as_bytes()));
    }
    if let Some(time) = record.time.and_then(|time| Timestamp::try_from(time).ok()) {
        headers = with(headers, TIME, PRINTER.timestamp_to_string(&time).as_bytes());
    }
    if let Some(key) = &record.key {
        headers = with(headers, KEY, key);
    }
    for (name, value) in record.headers.iter() {
        headers = with(headers, &format!("{PREFIX}{name}"), value);
    }
    headers
}

/// When the record was produced, in milliseconds, for a topic that keeps that.
pub(super) fn timestamp(record: &Record) -> Option<i64> {
    let since = record.time?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Where the bytes of small records are copied to, several in one allocation: they are freed on other threads than they are
/// made on, which allocators do slowly. One that is kept keeps all of them.
#[derive(Default)]
pub(in super::super) struct Copies {
    room: BytesMut,
}

impl Copies {
    fn of(&mut self, bytes: &[u8]) -> Bytes {
        const AT_ONCE: usize = 16 << 10;
        if bytes.len() > AT_ONCE / 4 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.room.capacity() < bytes.len() {
            self.room = BytesMut::with_capacity(AT_ONCE);
        }
        self.room.extend_from_slice(bytes);
        self.room.split().freeze()
    }
}

/// Reads a message. Headers of others' that are no attribute are left out.
pub(in super::super) fn read(
    known: &Known,
    message: &impl Message<Headers = BorrowedHeaders>,
    copies: &mut Copies,
) -> Record {
    let data = message.payload();
    let mut record = Record::new(known.origin.clone(), data.map_or_else(Bytes::new, |data| copies.of(data)));
    record.tombstone = data.is_none();
    record.key = message.key().filter(|key| !key.is_empty()).map(|key| copies.of(key));
    let (mut source, mut event_type, mut content_type) = (None, None, None);
    let mut headers = Headers::default();
    if let Some(found) = message.headers() {
        for index in 0..found.count() {
            // The client panics over a name that isn't UTF-8, which anyone may write.
            let Ok(Some(header)) = catch_unwind(AssertUnwindSafe(|| found.try_get(index))) else { continue };
            let Some(value) = header.value else { continue };
            let text = || str::from_utf8(value).ok();
            match header.key {
                ID => record.id = text().map(MessageId::read),
                TIME => {
                    record.time = text().and_then(|text| PARSER.parse_timestamp(text).ok()).map(SystemTime::from);
                }
                SOURCE => source = Some(value),
                TYPE => event_type = Some(value),
                CONTENT_TYPE => content_type = Some(value),
                VERSION | KEY => {}
                name => match name.strip_prefix(PREFIX) {
                    Some(name) if !name.is_empty() => headers.push(name, Bytes::copy_from_slice(value)),
                    _ => {}
                },
            }
        }
    }
    record.headers = headers;
    let Origin { source: own_source, event_type: own_type, content_type: own_content } = &*known.origin;
    let found = [source, event_type, content_type];
    if found != [own_source, own_type, own_content].map(|own| own.as_ref().map(String::as_bytes)) {
        let text = |value: Option<&[u8]>| value.and_then(|value| str::from_utf8(value).ok()).map(str::to_owned);
        let [source, event_type, content_type] = found.map(text);
        record.origin = Arc::new(Origin { source, event_type, content_type });
    }
    record
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Copies;

    #[test]
    fn small_records_share_an_allocation_and_keep_their_bytes() {
        let mut room = Copies::default();
        let texts: Vec<Vec<u8>> = (0..=250_u8).map(|number| vec![number; usize::from(number) * 20]).collect();
        let copied: Vec<Bytes> = texts.iter().map(|text| room.of(text)).collect();
        assert!(copied.iter().zip(&texts).all(|(copy, text)| copy == text));
        let follows = |pair: &&[Bytes]| pair[0].as_ptr().wrapping_add(pair[0].len()) == pair[1].as_ptr();
        assert_eq!(copied[1..30].windows(2).filter(follows).count(), 28, "8,700 bytes are in one allocation");
    }
}
