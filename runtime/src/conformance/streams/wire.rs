use std::time::Duration;

use super::entries::{Row, Sheet};
use super::record::{at, source_of};
use super::{Attributes, Raw, Streams};
use crate::conformance::rule::Rule;
use crate::stream::{Append, Start, StreamSettings};

const RULE: Rule = Rule("stream-wire");

fn attributes<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Attributes {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect()
}

/// `stream-wire`: a record is, byte for byte, what the documentation says: `CloudEvents` attributes, and the payload.
pub async fn stream_wire<S: Streams>(subject: S) {
    let stream = at(RULE, &subject, Duration::new(1_700_000_000, 123_456_789));
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let entry = super::entries::Entry { n: 7 };
    RULE.ok("appending", stream.append(&42, &entry)).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let append = Append::new(&u64::MAX, &entry).id("order-7").trace_context(parent, "a=b").header("region", "é%\"");
    RULE.ok("appending", stream.append_with(append)).await;
    let raw = RULE.within("reading past the backend", subject.read_raw(stream.address(), 0)).await;
    RULE.same("records", raw.len(), 2);
    let id = raw[0].attributes.get("id").map(|id| String::from_utf8_lossy(id).into_owned()).unwrap_or_default();
    // The time of 2023-11-14T22:13:20.123Z, the version and the variant; the rest is random.
    let shape = id.len() == 36 && id.starts_with("018bcfe5-687b-7") && "89ab".contains(&id[19..20]);
    RULE.that(shape, &format!("`{id}` is no UUID of version 7 of its time, in lower case"));
    let source = source_of(&subject);
    let common = [
        ("specversion", "1.0"),
        ("source", &*source),
        ("type", "conformance.entry.v1"),
        ("time", "2023-11-14T22:13:20.123Z"),
        ("datacontenttype", "application/json"),
    ];
    let plain = attributes(common.into_iter().chain([("id", &*id), ("partitionkey", "42")]));
    RULE.same("a record's attributes", &raw[0].attributes, &plain);
    RULE.same("a record's payload", &raw[0].data[..], b"{\"n\":7}");
    let own = [
        ("id", "order-7"),
        ("partitionkey", "18446744073709551615"),
        ("traceparent", parent),
        ("tracestate", "a=b"),
        ("region", "é%\""),
    ];
    RULE.same("a record with headers", &raw[1].attributes, &attributes(common.into_iter().chain(own)));
    let read = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("the id that was read", read[0].id().map(ToString::to_string), Some(id));

    // Keys as they stand in addresses; none for `()`.
    let sheets = RULE.unwrap("binding", Sheet::stream(stream.broker()));
    RULE.ok("creating the stream", sheets.ensure(StreamSettings::new())).await;
    let keys = [("", "%"), ("a.b:c", "a%2Eb%3Ac"), ("é", "%C3%A9"), ("{}b", "%7B%7Db"), ("*>?[a]", "%2A%3E%3F%5Ba%5D")];
    for (key, _) in keys {
        RULE.ok("appending", sheets.append(&key.to_owned(), &Sheet { n: 1 })).await;
    }
    let raw = RULE.within("reading past the backend", subject.read_raw(sheets.address(), 0)).await;
    let texts: Vec<_> = raw.iter().map(|raw| raw.attributes.get("partitionkey").cloned().unwrap_or_default()).collect();
    RULE.same("keys on the wire", texts, keys.map(|(_, text)| text.as_bytes().to_vec()).to_vec());
    let rows = RULE.unwrap("binding", Row::stream(stream.broker()));
    RULE.ok("creating the stream", rows.ensure(StreamSettings::new())).await;
    RULE.ok("appending", rows.append(&(), &Row { n: 1 })).await;
    let raw = RULE.within("reading past the backend", subject.read_raw(rows.address(), 0)).await;
    RULE.that(raw[0].attributes.contains_key("id"), "the control: a record has an id");
    RULE.that(!raw[0].attributes.contains_key("partitionkey"), "a record without a key has no attribute for it");

    // What is on the wire comes back in, byte for byte.
    for raw in RULE.within("reading past the backend", subject.read_raw(stream.address(), 0)).await {
        RULE.within("appending past the backend", subject.append_raw(stream.address(), 0, raw)).await;
    }
    let read = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("records after two more", read.len(), 4);
    for (once, again) in read[..2].iter().zip(&read[2..]) {
        RULE.same("what came in", RULE.number("reading", again), 7);
        RULE.same("its key", again.key(), once.key());
        RULE.same("its id", again.id(), once.id());
        RULE.same("its time", again.produced_at(), once.produced_at());
        RULE.same("its type", again.event_type(), once.event_type());
        RULE.same("its source", again.source(), once.source());
        RULE.same("its content type", again.content_type(), once.content_type());
        for (name, value) in once.headers().iter() {
            RULE.same("its headers", again.headers().get_bytes(name), Some(value));
        }
        RULE.same("its headers", again.headers().iter().len(), once.headers().iter().len());
    }
}

/// `stream-wire`: a record from elsewhere is read, too: what is absent or unreadable is absent, the payload is whatever
/// is there.
pub async fn stream_wire_foreign<S: Streams>(subject: S) {
    let stream = RULE.entries(&subject).await;
    let address = stream.address();
    let bare = Raw::new(&b"{\"n\":1}"[..]);
    RULE.within("appending past the backend", subject.append_raw(address, 0, bare)).await;
    let odd = Raw::new(&b"{ \"more\" : [1, 2], \"n\" : 2 }\n"[..])
        .attribute("time", "yesterday")
        .attribute("partitionkey", &b"\xff"[..])
        .attribute("source", "urn:elsewhere")
        .attribute("region", &b"\xfe\xff"[..])
        .attribute("datacontenttype", "text/plain; charset=x");
    RULE.within("appending past the backend", subject.append_raw(address, 0, odd)).await;
    for (n, time) in [(3, "2023-11-14T23:13:20.1+01:00"), (4, "2023-11-14T22:13:20.1Z")] {
        let raw = Raw::new(format!("{{\"n\":{n}}}")).attribute("time", time).attribute("id", "a id");
        RULE.within("appending past the backend", subject.append_raw(address, 0, raw)).await;
    }
    let read = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("the values", RULE.numbers("a record from elsewhere", &read), [1, 2, 3, 4]);
    let bare = &read[0];
    RULE.that(bare.id().is_none() && bare.key_bytes().is_none() && bare.produced_at().is_none(), "absent is absent");
    RULE.same("absent", [bare.source(), bare.event_type(), bare.content_type()], [None; 3]);
    RULE.that(bare.headers().is_empty() && bare.key().is_err(), "absent is absent");
    let odd = &read[1];
    RULE.same("the bytes as they came", &odd.data()[..], b"{ \"more\" : [1, 2], \"n\" : 2 }\n");
    RULE.same("an unreadable time", odd.produced_at(), None);
    RULE.same("a key that is no text", odd.key_bytes().map(|key| &key[..]), Some(&b"\xff"[..]));
    RULE.that(odd.key().is_err(), "a key that is no text doesn't decode");
    RULE.same("another source", odd.source(), Some("urn:elsewhere"));
    RULE.same("another content type", odd.content_type(), Some("text/plain; charset=x"));
    RULE.same("a header that is no text", odd.headers().get("region"), None);
    RULE.same("its bytes", odd.headers().get_bytes("region").map(|value| &value[..]), Some(&b"\xfe\xff"[..]));
    let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_100);
    for delivery in &read[2..] {
        let produced = delivery.produced_at();
        RULE.same("a time in another form", produced, Some(time));
        RULE.same("another id", delivery.id().map(ToString::to_string), Some("a id".to_owned()));
    }
}
