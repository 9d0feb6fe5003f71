//! A record as a message with headers, and back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
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

/// Reads a message. Headers of others' that are no attribute are left out.
pub(in super::super) fn read(known: &Known, message: &impl Message<Headers = BorrowedHeaders>) -> Record {
    let data = message.payload();
    let mut record = Record::new(known.origin.clone(), data.map_or_else(Bytes::new, Bytes::copy_from_slice));
    record.tombstone = data.is_none();
    record.key = message.key().filter(|key| !key.is_empty()).map(Bytes::copy_from_slice);
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
                SOURCE => source = text(),
                TYPE => event_type = text(),
                CONTENT_TYPE => content_type = text(),
                VERSION | KEY => {}
                name => match name.strip_prefix(PREFIX) {
                    Some(name) if !name.is_empty() => headers.push(name, Bytes::copy_from_slice(value)),
                    _ => {}
                },
            }
        }
    }
    record.headers = headers;
    let own = &*known.origin;
    if (source, event_type, content_type)
        != (own.source.as_deref(), own.event_type.as_deref(), own.content_type.as_deref())
    {
        let [source, event_type, content_type] = [source, event_type, content_type].map(|text| text.map(str::to_owned));
        record.origin = Arc::new(Origin { source, event_type, content_type });
    }
    record
}
