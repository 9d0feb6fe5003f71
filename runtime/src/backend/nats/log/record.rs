//! A record as a message with headers, and back: CloudEvents' NATS binding in binary mode.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};

use super::super::wire::{Message, begin_head, end_head, header};
use crate::capability::{Origin, Record};
use crate::stream::{Headers, MessageId};

/// Before the name of an attribute.
const PREFIX: &str = "ce-";
const ID: &str = "id";
const SOURCE: &str = "source";
const TYPE: &str = "type";
const TIME: &str = "time";
const KEY: &str = "partitionkey";
const VERSION: &str = "specversion";
const CONTENT_TYPE: &str = "datacontenttype";

/// By which JetStream stores a message once.
const STORED_ONCE: &str = "Nats-Msg-Id";
/// Which stream is to store it, and no other.
const EXPECTED: &str = "Nats-Expected-Stream";

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static PARSER: DateTimeParser = DateTimeParser::new();

/// What a stream's own records have in common, as it was made and as it goes over the wire.
pub(super) struct Known {
    origin: Arc<Origin>,
    head: Vec<u8>,
}

impl Known {
    pub(super) fn new(origin: &Arc<Origin>) -> Self {
        Self { origin: origin.clone(), head: origin_head(origin) }
    }
}

/// Specversion, source, type and content type.
fn origin_head(origin: &Origin) -> Vec<u8> {
    let Origin { source, event_type, content_type } = origin;
    let mut head = begin_head();
    attribute(&mut head, VERSION, b"1.0");
    for (name, value) in [(SOURCE, source), (TYPE, event_type), (CONTENT_TYPE, content_type)] {
        if let Some(value) = value {
            attribute(&mut head, name, value.as_bytes());
        }
    }
    head
}

fn attribute(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(PREFIX.as_bytes());
    header(head, name, &encoded(value));
}

/// The record's headers, for this stream and no other.
pub(super) fn head(known: &Known, record: &Record, stream: &str) -> Vec<u8> {
    let mut head =
        if Arc::ptr_eq(&record.origin, &known.origin) { known.head.clone() } else { origin_head(&record.origin) };
    if let Some(id) = &record.id {
        id.with_text(|text| attribute(&mut head, ID, text.as_bytes()));
    }
    if let Some(time) = record.time.and_then(|time| Timestamp::try_from(time).ok()) {
        attribute(&mut head, TIME, PRINTER.timestamp_to_string(&time).as_bytes());
    }
    if let Some(key) = &record.key {
        attribute(&mut head, KEY, key);
    }
    for (name, value) in record.headers.iter() {
        attribute(&mut head, name, value);
    }
    if let Some(id) = record.id.as_ref().filter(|_| record.once) {
        id.with_text(|text| header(&mut head, STORED_ONCE, &encoded(text.as_bytes())));
    }
    header(&mut head, EXPECTED, stream.as_bytes());
    end_head(head)
}

/// Reads a message of the stream at this address. Headers of others' that are no attribute are left out.
pub(super) fn read(known: &Known, address: &str, message: &Message) -> Record {
    let mut record = Record::new(known.origin.clone(), message.payload.clone());
    let mut origin = Origin::default();
    let mut headers = Headers::default();
    for (name, value) in message.headers() {
        let Some((prefix, name)) = name.split_at_checked(PREFIX.len()) else { continue };
        if !prefix.eq_ignore_ascii_case(PREFIX) || name.is_empty() {
            continue;
        }
        let value = decoded(&value);
        let text = || std::str::from_utf8(&value).ok();
        match &*name.to_ascii_lowercase() {
            ID => record.id = text().map(MessageId::read),
            TIME => record.time = text().and_then(|text| PARSER.parse_timestamp(text).ok()).map(SystemTime::from),
            SOURCE => origin.source = text().map(str::to_owned),
            TYPE => origin.event_type = text().map(str::to_owned),
            CONTENT_TYPE => origin.content_type = text().map(str::to_owned),
            KEY => record.key = Some(value).filter(|key| !key.is_empty()),
            VERSION => {}
            _ => headers.push(name, value),
        }
    }
    // What the server goes by.
    let key = message.subject.strip_prefix(address.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        record.key = Some(message.subject.slice_ref(key));
    }
    record.headers = headers;
    if origin != *known.origin {
        record.origin = Arc::new(origin);
    }
    record
}

/// Spells what isn't a printable letter of ASCII as `%XX`, and so space, `"` and `%`.
fn encoded(value: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let stands = |byte: &u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'%');
    if value.iter().all(stands) {
        return value.into();
    }
    let digit = |number: u8| b"0123456789ABCDEF"[usize::from(number)];
    let mut text = Vec::with_capacity(value.len() * 3);
    for byte in value {
        if stands(byte) {
            text.push(*byte);
        } else {
            text.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text.into()
}

/// Reads what [`encoded`] wrote, and what stands between double quotes. A `%` without two digits stands for itself.
fn decoded(value: &Bytes) -> Bytes {
    if !value.iter().any(|byte| matches!(byte, b'%' | b'"')) {
        return value.clone();
    }
    let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = quoted.unwrap_or(value);
    while let [first, behind @ ..] = rest {
        rest = behind;
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        match (first, behind) {
            (b'\\', [escaped, behind @ ..]) if quoted.is_some() => {
                bytes.push(*escaped);
                rest = behind;
            }
            (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.extend(digits(&[*high, *low]));
                rest = behind;
            }
            _ => bytes.push(*first),
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spelt_as_the_binding_has_it_and_come_back() {
        for (value, text) in [
            ("Euro \u{20ac} \u{1f600}", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("a%2Eb", "a%252Eb"),
            ("/shop/prod", "/shop/prod"),
            ("\"\r\n", "%22%0D%0A"),
            ("", ""),
        ] {
            assert_eq!(encoded(value.as_bytes()), text.as_bytes());
            assert_eq!(decoded(&Bytes::from(text.to_owned())), value.as_bytes());
        }
        for (text, value) in
            [("\"a \\\" b%21\"", "a \" b!"), ("100%", "100%"), ("%e2%82%ac", "\u{20ac}"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(decoded(&Bytes::from(text.to_owned())), value.as_bytes(), "{text}");
        }
    }
}
