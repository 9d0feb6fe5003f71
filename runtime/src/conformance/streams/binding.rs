use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Streams;
use super::entries::{Booking, Both, Entry, EntryV2, Impostor, Legacy, Other, Relic, Row, Sheet};
use super::steps::{ALL, parted};
use crate::address::key;
use crate::capability::partition_of;
use crate::codec::Json;
use crate::conformance::PATIENCE;
use crate::conformance::rule::{Rule, limits};
use crate::declaration::{Declaration, StreamSpec};
use crate::error::{ErrorKind, Operation, Outcome};
use crate::stream::{Start, Stream, StreamSettings};

/// `broker-no-io`: binding a stream, looking up a start and choosing a durability do no I/O and spawn nothing.
pub async fn stream_no_io<S: Streams>(subject: S) {
    const RULE: Rule = Rule("broker-no-io");
    subject.refuse(true).await;
    // On a thread without a runtime, where spawning and I/O panic.
    let built = std::thread::scope(|scope| {
        let built = scope.spawn(|| {
            let stream = RULE.bound(&subject);
            drop(stream.tail(Start::Earliest));
            stream
        });
        built.join()
    });
    let Ok(stream) = built else { panic!("broker-no-io: binding needs a runtime, so it spawns or does I/O") };
    let stats = stream.broker().stats();
    RULE.same("tasks and operations after binding", (stats.tasks, stats.operations), (0, 0));

    // The control: the first operation is what needs the system.
    let failed = RULE.fails("creating without the system", stream.ensure(StreamSettings::new())).await;
    RULE.same("what failed", (failed.operation(), failed.outcome()), (Operation::Ensure, Outcome::NotApplied));
    subject.refuse(false).await;
    RULE.ok("creating with the system", stream.ensure(StreamSettings::new())).await;
    let checked = RULE.ok("checking with the system", stream.broker().check(PATIENCE)).await;
    RULE.same("what a bound stream can't have", checked.problems, Vec::<String>::new());
}

struct Misnamed;

impl StreamSpec for Misnamed {
    type Key = ();
    type Codec = Json;
    const DECLARATION: Declaration = Declaration::stream("conformance.dead", 1);
    const REQUIRES: &'static [crate::capability::Capability] = &[];
    const ADDRESS: Option<&'static str> = None;
}

/// `bind-once`: the same declaration gives the same stream; another type under its name, and another stream at its
/// address, are refused.
pub async fn stream_bind<S: Streams>(subject: S) {
    const RULE: Rule = Rule("bind-once");
    let broker = RULE.broker_with(&subject, limits().declarations(5));
    let once = RULE.unwrap("binding", Entry::stream(&broker));
    let twice = RULE.unwrap("binding again", Entry::stream(&broker));
    RULE.that(Arc::ptr_eq(&once.bound, &twice.bound), "binding twice must give the same stream");
    let address = format!("{}.stream.conformance.entry.v1", subject.namespace());
    RULE.same("the address", once.address(), address.as_str());
    RULE.same("the declaration", once.declaration().to_string(), "conformance.entry.v1");
    let refused = RULE.unwrap_err("another type under one name", Impostor::stream(&broker));
    RULE.refused("another type under one name", &refused, ErrorKind::Duplicate);
    RULE.that(!refused.is_transient(), "a duplicate must be permanent");
    let refused = RULE.unwrap_err("a name out of its grammar", Stream::<Misnamed, _>::bind(&broker));
    RULE.refused("a name out of its grammar", &refused, ErrorKind::Invalid);
    RULE.unwrap("the control: another version", EntryV2::stream(&broker));

    let legacy = RULE.unwrap("an address of its own", Legacy::stream(&broker));
    RULE.same("an address of its own", legacy.address(), "legacy-orders");
    let refused = RULE.unwrap_err("two streams at one address", Relic::stream(&broker));
    RULE.refused("two streams at one address", &refused, ErrorKind::Duplicate);
    let said = refused.to_string();
    let named = said.contains("conformance.legacy") && said.contains("legacy-orders");
    RULE.that(named, &format!("a clash names declaration and address, not `{said}`"));

    // A topic and a stream of one type, name and version are two declarations.
    let both = RULE.unwrap("a type with both", Both::stream(&broker));
    RULE.ok("creating the stream", both.ensure(StreamSettings::new())).await;
    RULE.ok("appending", both.append(&1, &Both { n: 7 })).await;
    let read = RULE.ok("reading", both.read(Start::Earliest, 10, Duration::ZERO)).await;
    let numbers: Vec<_> = read.iter().filter_map(|delivery| delivery.value().ok()).map(|both| both.n).collect();
    RULE.same("the stream of a type with both", numbers, [7]);

    RULE.unwrap("the last declaration", Other::stream(&broker));
    let refused = RULE.unwrap_err("one declaration too many", Sheet::stream(&broker));
    RULE.refused("one declaration too many", &refused, ErrorKind::Overloaded);
    let other = RULE.broker(&subject);
    RULE.unwrap("the control: another broker", Impostor::stream(&other));
    RULE.unwrap("the control: another broker", Relic::stream(&other));
    RULE.ok("closing", other.close(PATIENCE)).await;
    let refused = RULE.unwrap_err("binding to a closed broker", Sheet::stream(&other));
    RULE.refused("binding to a closed broker", &refused, ErrorKind::Closed);
}

/// `stream-keys`: a key's records stay in the partition of its text, as Kafka's Java client has it, whatever the text;
/// records without a key go round robin (B22, B23, B25).
pub async fn stream_keys<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stream-keys");
    let sheets = RULE.unwrap("binding", Sheet::stream(&RULE.broker(&subject)));
    let settings = parted::<S>(15);
    let among = settings.partitions;
    RULE.ok("creating the stream", sheets.ensure(settings.clone())).await;
    let receipt = RULE.ok("appending", sheets.append(&"TT0124".to_owned(), &Sheet { n: 0 })).await;
    let wanted = if among == 15 { 10 } else { partition_of(b"TT0124", among) };
    RULE.same("the partition of `TT0124`", RULE.stored("appending", receipt).partition(), wanted);
    // Braces mean something to a cluster, percent signs to the encoding; case and normal form are kept apart.
    let keys =
        ["{}b", "{}c", "{a}b", "{{a}}", "x{a}{b}", "%", "%25", "é", "e\u{301}", "A", "a", "a.b", "", "\u{0}", "*"];
    for (n, key) in (1..).zip(keys) {
        let key = key.to_owned();
        let mut text = String::new();
        crate::TopicKey::write(&key, &mut key::KeyWriter::new(&mut text));
        let wanted = partition_of(&text.as_bytes()[1..], among);
        for _ in 0..3 {
            let receipt = RULE.ok("appending", sheets.append(&key, &Sheet { n })).await;
            RULE.same(&format!("the partition of `{key}`"), RULE.stored("appending", receipt).partition(), wanted);
        }
    }
    let read = RULE.ok("reading", sheets.read(Start::Earliest, ALL, Duration::ZERO)).await;
    RULE.same("all of them", read.len(), 1 + 3 * keys.len());
    for (n, key) in (1..).zip(keys) {
        let own = read.iter().filter(|delivery| delivery.value().is_ok_and(|sheet| sheet.n == n));
        let back: Vec<_> = own.map(|delivery| delivery.key().ok()).collect();
        RULE.same("a key comes back", back, vec![Some(key.to_owned()); 3]);
    }

    // An empty key is a key: it sticks to one partition. No key is none.
    let rows = RULE.unwrap("binding", Row::stream(sheets.broker()));
    RULE.ok("creating the stream", rows.ensure(parted::<S>(6))).await;
    let mut spread = BTreeSet::new();
    for n in 0..12 {
        let receipt = RULE.ok("appending", rows.append(&(), &Row { n })).await;
        spread.insert(RULE.stored("appending", receipt).partition());
    }
    RULE.same("partitions of records without a key", spread.len(), among.min(6) as usize);
    let read = RULE.ok("reading", rows.read(Start::Earliest, ALL, Duration::ZERO)).await;
    RULE.that(read.iter().all(|delivery| delivery.key_bytes().is_none()), "a record without a key has none");
    RULE.that(read.iter().all(|delivery| delivery.key() == Ok(())), "no key is the key `()`");

    // An entry that holds its key says the same as one whose key is given.
    let bookings = RULE.unwrap("binding", Booking::stream(sheets.broker()));
    RULE.ok("creating the stream", bookings.ensure(StreamSettings::new())).await;
    RULE.ok("appending", bookings.append(&Booking { tenant: "ac.me".to_owned(), room: 12 })).await;
    let read = RULE.ok("reading", bookings.read(Start::Earliest, 10, Duration::ZERO)).await;
    let bytes: Vec<_> = read.iter().filter_map(|delivery| delivery.key_bytes()).collect();
    RULE.same("an entry's own key", bytes, [&bytes::Bytes::from("ac%2Eme.12")]);
}
