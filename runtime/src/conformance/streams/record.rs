use std::time::{Duration, SystemTime};

use super::entries::{Entry, Row};
use super::steps::{behind, parted, places};
use super::{Raw, Streams};
use crate::broker::{Broker, Config};
use crate::capability::Log;
use crate::conformance::rule::{Rule, limits};
use crate::error::ErrorKind;
use crate::stream::{Append, Position, Positions, Start, Stream, StreamSettings};

/// `poison-in-place`: a record that doesn't decode comes in its place, with everything that is in it, and harms no
/// other (I07).
pub async fn poison_in_place<S: Streams>(subject: S) {
    const RULE: Rule = Rule("poison-in-place");
    let stream = RULE.entries(&subject).await;
    let wrong: [&[u8]; 7] =
        [b"", b"{\"n\":", b"\xff\xfe\x00", b"null", b"{\"n\":-1}", b"\xef\xbb\xbf{\"n\":1}", b"{\"n\":1e400}"];
    let mut tail = stream.tail(Start::Earliest);
    for (n, data) in (0..).zip(wrong) {
        RULE.fill(&stream, [n]).await;
        let poison = Raw::new(data).attribute("id", format!("bad-{n}")).attribute("partitionkey", "7");
        RULE.within("appending past the backend", subject.append_raw(stream.address(), 0, poison)).await;
    }
    RULE.fill(&stream, [7]).await;
    let read = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("records", read.len(), 15);
    for (index, delivery) in read.iter().enumerate() {
        let tailed = RULE.ok("tailing", tail.receive()).await;
        RULE.same("the same place in a tail", tailed.position(), delivery.position());
        let n = index / 2;
        if index % 2 == 0 {
            RULE.same("a neighbour", RULE.number("a neighbour", delivery), n as u64);
            continue;
        }
        for delivery in [delivery, &tailed] {
            let Err(poison) = delivery.value() else { panic!("poison-in-place: {:?} decoded", wrong[n]) };
            RULE.same("the poison's position", poison.position(), delivery.position());
            RULE.same("the poison's bytes", &delivery.data()[..], wrong[n]);
            RULE.same("the poison's key", delivery.key().ok(), Some(7));
            let id = delivery.id().map(ToString::to_string);
            RULE.same("the poison's id", id, Some(format!("bad-{n}")));
            let said = format!("{poison} {delivery:?}");
            RULE.that(!said.contains("1e400"), &format!("an error must quote nothing, but says `{said}`"));
        }
    }
    let rising = places(&read).windows(2).all(|pair| pair[0] < pair[1]);
    RULE.that(rising, "each in its place");
    RULE.reads("the control: after the last poison", &stream, behind(Some(read[13].position())), [7]).await;
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What records of the subject's namespace have as their source.
pub(super) fn source_of(subject: &impl Streams) -> String {
    format!("/{}", subject.namespace().to_string().replace('.', "/"))
}

/// Binds to a broker whose clock stands still, between two milliseconds.
pub(super) fn at<S: Streams>(rule: Rule, subject: &S, since_epoch: Duration) -> Stream<Entry, S::Backend> {
    let config = Config::new(subject.namespace()).clock(move || SystemTime::UNIX_EPOCH + since_epoch);
    let broker = rule.unwrap("building a broker", Broker::new(subject.backend(), config));
    rule.unwrap("binding", Entry::stream(&broker))
}

/// `headers`: what a record says of itself comes back as it was appended; reserved names and bad values are refused.
pub async fn headers<S: Streams>(subject: S) {
    const RULE: Rule = Rule("headers");
    let since_epoch = Duration::new(1_700_000_000, 123_456_789);
    let stream = at(RULE, &subject, since_epoch);
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let entry = Entry { n: 1 };
    let long = "v".repeat(10_000);
    let pairs = [
        ("a", ""),
        ("region", "eu"),
        ("text", "é 🦀 \u{2028} %25 \"q\""),
        ("x1234567890123456789", "1"),
        ("0", " 0 "),
        ("dataref", "d"),
        ("long", &long),
    ];
    let mut append = Append::new(&42, &entry).trace_context(PARENT, "a=b,c=d");
    for (name, value) in pairs {
        append = append.header(name, value);
    }
    RULE.ok("appending", stream.append_with(append)).await;
    RULE.ok("appending", stream.append(&42, &entry)).await;
    let read = RULE.read("reading", &RULE.bound(&subject), Start::Earliest).await;
    RULE.same("records", read.len(), 2);
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    for delivery in &read {
        RULE.same("when it was produced, in milliseconds", delivery.produced_at(), Some(time));
        RULE.same("the content type", delivery.content_type(), Some("application/json"));
        RULE.same("the source", delivery.source(), Some(&*source_of(&subject)));
        RULE.same("the type", delivery.event_type(), Some("conformance.entry.v1"));
        RULE.same(
            "the key",
            (delivery.key().ok(), delivery.key_bytes().map(|key| &key[..])),
            (Some(42), Some(&b"42"[..])),
        );
        RULE.same("the payload", &delivery.data()[..], b"{\"n\":1}");
        RULE.that(delivery.id().is_some(), "every record has an id");
    }
    let (with, without) = (read[0].headers(), read[1].headers());
    for (name, value) in pairs {
        RULE.same(&format!("the header `{name}`"), with.get(name), Some(value));
    }
    RULE.same("the trace context", (with.get("traceparent"), with.get("tracestate")), (Some(PARENT), Some("a=b,c=d")));
    RULE.same("all headers", with.iter().len(), pairs.len() + 2);
    RULE.that(without.is_empty(), "the control: without headers there are none");

    refused_headers(RULE, &stream).await;

    // The bounds: as many and as much as may be, and one more.
    let narrow = RULE.bound_with(&subject, limits().headers(2).header_bytes(10));
    let bounded = |values: &[&str]| {
        let mut append = Append::new(&1, &entry);
        for (name, value) in ["a", "b", "c"].iter().zip(values) {
            append = append.header(name, *value);
        }
        narrow.append_with(append)
    };
    RULE.ok("as much as may be", bounded(&["1234", "1234"])).await;
    for values in [&["1234", "12345"][..], &["1", "2", "3"]] {
        let refused = RULE.fails("too much", bounded(values)).await;
        RULE.refused("too much", &refused, ErrorKind::Invalid);
    }
    let refused = RULE
        .fails("several mistakes", stream.append_with(Append::new(&1, &entry).id("").header("id", "").header("B", "")))
        .await;
    let said = refused.to_string();
    RULE.that(
        said.contains("the id") && said.contains("`id`") && said.contains("`B`"),
        "every mistake is named at once",
    );
    RULE.reads("what was refused isn't there", &stream, Start::Earliest, [1, 1, 1]).await;
}

/// Names and values that a caller may not set, each refused before anything is sent.
async fn refused_headers<B: Log>(rule: Rule, stream: &Stream<Entry, B>) {
    let entry = Entry { n: 1 };
    let refused = async |what: &str, append: Append<&u64, &Entry>| {
        let refused = rule.fails(what, stream.append_with(append)).await;
        rule.refused(what, &refused, ErrorKind::Invalid);
    };
    let reserved = [
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
    for name in reserved {
        refused(&format!("the reserved name `{name}`"), Append::new(&1, &entry).header(name, "x")).await;
    }
    for name in ["", "A", "a-b", "a_b", "a.b", "ce_id", "content-type", "é", "a b", "x12345678901234567890"] {
        refused(&format!("the name `{name}`"), Append::new(&1, &entry).header(name, "x")).await;
    }
    for value in ["a\nb", "\u{0}", "\u{7f}", "\u{85}"] {
        refused("a control character", Append::new(&1, &entry).header("a", value)).await;
    }
    refused("a name twice", Append::new(&1, &entry).header("a", "1").header("a", "2")).await;
    for parent in ["", "00-0-0-0", &PARENT.to_uppercase(), &format!("ff{}", &PARENT[2..]), &format!("{PARENT}-x")] {
        refused("a bad trace context", Append::new(&1, &entry).trace_context(parent, "")).await;
    }
    refused("a bad trace state", Append::new(&1, &entry).trace_context(PARENT, "a\n")).await;
}

/// `positions`: a position prints, parses back and serializes as one text, is ordered within its partition alone, and
/// is where reading goes on, in whatever process.
pub async fn positions<S: Streams>(subject: S) {
    const RULE: Rule = Rule("positions");
    let rows = RULE.unwrap("binding", Row::stream(&RULE.broker(&subject)));
    RULE.ok("creating the stream", rows.ensure(parted::<S>(2))).await;
    let mut told = Vec::new();
    for n in 0..12 {
        let receipt = RULE.ok("appending", rows.append(&(), &Row { n })).await;
        told.push(RULE.stored("appending", receipt));
    }
    for (index, position) in told.iter().enumerate() {
        let text = position.to_string();
        RULE.same("a position's text", text.parse(), Ok(*position));
        let json = serde_json::to_string(position).ok();
        RULE.same("a position in JSON", json.as_deref(), Some(&*format!("\"{text}\"")));
        let back = json.and_then(|json| serde_json::from_str::<Position>(&json).ok());
        RULE.same("a position back from JSON", back, Some(*position));
        for later in &told[index + 1..] {
            let same = position.partition() == later.partition();
            let order = same.then_some(std::cmp::Ordering::Less);
            RULE.same(&format!("{position} and {later}"), position.partial_cmp(later), order);
        }
    }
    // Marks of both partitions, kept as text: what comes after them is everything else.
    let marks: Positions = told[..6].iter().copied().collect();
    RULE.same("one position a partition", marks.iter().count(), 2.min(S::PARTITIONS) as usize);
    let text = marks.to_string();
    let parsed: Positions = text.parse().unwrap_or_default();
    RULE.same("marks from their text", &parsed, &marks);
    let json = serde_json::to_string(&marks).ok();
    let back = json.and_then(|json| serde_json::from_str::<Positions>(&json).ok());
    RULE.same("marks back from JSON", back.as_ref(), Some(&marks));
    let fresh = RULE.unwrap("binding", Row::stream(&RULE.broker(&subject)));
    let rest = RULE.ok("reading on", fresh.read(parsed, 100, Duration::ZERO)).await;
    let mut read = places(&rest);
    read.sort_by_key(|position| (position.partition(), position.offset()));
    let mut wanted = told[6..].to_vec();
    wanted.sort_by_key(|position| (position.partition(), position.offset()));
    RULE.same("reading on from a text", read, wanted);
    let all = RULE.ok("the control", fresh.read(Positions::new(), 100, Duration::ZERO)).await;
    RULE.same("the control: from no mark", all.len(), told.len());
}
