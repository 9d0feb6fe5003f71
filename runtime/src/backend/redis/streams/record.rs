//! A record as the fields of a stream's entry, and back.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};

use super::super::fault::Fault;
use super::super::resp::Cursor;
use super::layout::word;
use crate::capability::{Origin, Record, Stored};
use crate::stream::{Headers, MessageId, Position};

const ID: &[u8] = b"ce_id";
const SOURCE: &[u8] = b"ce_source";
const TYPE: &[u8] = b"ce_type";
const TIME: &[u8] = b"ce_time";
const KEY: &[u8] = b"ce_partitionkey";
const VERSION: &[u8] = b"ce_specversion";
const CONTENT_TYPE: &[u8] = b"content-type";
const DATA: &[u8] = b"data";
/// Before the name of a header.
const PREFIX: &[u8] = b"ce_";

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static PARSER: DateTimeParser = DateTimeParser::new();

/// What a stream's own records have in common, as it was made and as it goes over the wire.
pub(super) struct Known {
    origin: Arc<Origin>,
    packed: Vec<u8>,
    fields: usize,
}

impl Known {
    pub(super) fn new(origin: &Arc<Origin>) -> Self {
        let mut packed = Vec::new();
        let fields = write_origin(&mut packed, origin);
        Self { origin: origin.clone(), packed, fields }
    }
}

/// Appends specversion, source, type and content type, and returns how many fields that are.
fn write_origin(out: &mut Vec<u8>, origin: &Origin) -> usize {
    let Origin { source, event_type, content_type } = origin;
    let mut fields = 1;
    word(out, VERSION);
    word(out, b"1.0");
    for (name, value) in [(SOURCE, source), (TYPE, event_type), (CONTENT_TYPE, content_type)] {
        if let Some(value) = value {
            word(out, name);
            word(out, value.as_bytes());
            fields += 1;
        }
    }
    fields
}

/// How many fields the record has.
pub(super) fn fields(known: &Known, record: &Record) -> usize {
    let Origin { source, event_type, content_type } = &*record.origin;
    let origin = if Arc::ptr_eq(&record.origin, &known.origin) {
        known.fields
    } else {
        1 + usize::from(source.is_some()) + usize::from(event_type.is_some()) + usize::from(content_type.is_some())
    };
    let time = record.time.is_some_and(|time| Timestamp::try_from(time).is_ok());
    origin
        + usize::from(record.id.is_some())
        + usize::from(time)
        + usize::from(record.key.is_some())
        + record.headers.iter().len()
        + 1
}

/// Appends the record's fields, those that are the same in all records first, so that the server keeps their names once.
pub(super) fn write(out: &mut Vec<u8>, known: &Known, record: &Record) {
    if Arc::ptr_eq(&record.origin, &known.origin) {
        out.extend_from_slice(&known.packed);
    } else {
        write_origin(out, &record.origin);
    }
    if let Some(id) = &record.id {
        word(out, ID);
        id.with_text(|text| word(out, text.as_bytes()));
    }
    if let Some(time) = record.time.and_then(|time| Timestamp::try_from(time).ok()) {
        word(out, TIME);
        let mut text = Text { bytes: [0; 40], length: 0 };
        // It is never as long.
        let _ = PRINTER.print_timestamp(&time, &mut text);
        word(out, &text.bytes[..text.length]);
    }
    if let Some(key) = &record.key {
        word(out, KEY);
        word(out, key);
    }
    for (name, value) in record.headers.iter() {
        super::super::link::header(out, b'$', PREFIX.len() + name.len());
        out.extend_from_slice(PREFIX);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\r\n");
        word(out, value);
    }
    word(out, DATA);
    word(out, &record.data);
}

/// Room for a time's text.
struct Text {
    bytes: [u8; 40],
    length: usize,
}

impl jiff::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> Result<(), jiff::Error> {
        let end = self.length + text.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(text.as_bytes());
            self.length = end;
        }
        Ok(())
    }
}

/// Reads a list of entries of one partition. Those that aren't there any more go to `lost`.
pub(super) fn read_entries(
    reply: &mut Cursor<'_>,
    known: &Known,
    partition: u32,
    records: &mut Vec<Stored>,
    lost: &mut Vec<Position>,
) -> Result<(), Fault> {
    let count = reply.list()?.unwrap_or(0);
    // A count can't ask for more room than its reply has bytes.
    records.reserve(count.min(reply.left() / 8));
    for _ in 0..count {
        if reply.list()? != Some(2) {
            return Err(Fault::malformed());
        }
        let (high, low) = reply.id()?;
        let position = Position::of_halves(partition, high, low);
        match reply.list()? {
            None => lost.push(position),
            Some(values) => {
                let record = read_fields(reply, known, values)?;
                records.push(Stored { position, attempt: 1, record });
            }
        }
    }
    Ok(())
}

/// Reads so many names and values. Fields of others' that no attribute has are left out.
fn read_fields(reply: &mut Cursor<'_>, known: &Known, values: usize) -> Result<Record, Fault> {
    let mut record = Record::new(known.origin.clone(), Bytes::new());
    let mut fields = values / 2;
    // A stream's own records begin alike.
    let mut origin = None;
    if fields >= known.fields && reply.skip_bytes(&known.packed) {
        fields -= known.fields;
    } else {
        origin = Some(Origin::default());
    }
    let mut headers = Headers::default();
    for _ in 0..fields {
        match reply.text()? {
            ID => record.id = text(reply)?.map(MessageId::read),
            TIME => record.time = PARSER.parse_timestamp(reply.text()?).ok().map(SystemTime::from),
            KEY => record.key = Some(reply.bytes()?).filter(|key| !key.is_empty()),
            DATA => record.data = reply.bytes()?,
            VERSION => reply.skip()?,
            name @ (SOURCE | TYPE | CONTENT_TYPE) => {
                let value = text(reply)?.map(str::to_owned);
                let origin = origin.get_or_insert_with(|| Origin::clone(&known.origin));
                match name {
                    SOURCE => origin.source = value,
                    TYPE => origin.event_type = value,
                    _ => origin.content_type = value,
                }
            }
            name => match name.strip_prefix(PREFIX).map(std::str::from_utf8) {
                Some(Ok(name)) if !name.is_empty() => headers.push(name, reply.bytes()?),
                _ => reply.skip()?,
            },
        }
    }
    if values % 2 == 1 {
        reply.skip()?;
    }
    record.headers = headers;
    if let Some(origin) = origin.filter(|origin| *origin != *known.origin) {
        record.origin = Arc::new(origin);
    }
    Ok(record)
}

fn text<'a>(reply: &mut Cursor<'a>) -> Result<Option<&'a str>, Fault> {
    Ok(std::str::from_utf8(reply.text()?).ok())
}
