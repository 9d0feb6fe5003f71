use std::time::Duration;

use super::Streams;
use super::entries::{Entry, Page, Sheet};
use super::steps::{LONG, give_up, places};
use crate::capability::AckGroups;
use crate::conformance::rule::{Rule, limits};
use crate::error::ErrorKind;
use crate::stream::{Start, StreamSettings};

const RULE: Rule = Rule("stream-limits");

/// `stream-limits`: every bound holds to the byte, and what is over it is refused before anything is sent.
pub async fn stream_limits<S: Streams>(subject: S) {
    let narrow = limits().append_bytes(64).key_bytes(8).read_records(5).operations(2);
    let broker = RULE.broker_with(&subject, narrow.timeout(Duration::from_millis(300)));
    // Creating may take longer than appending and reading.
    let wide = RULE.broker(&subject);
    let created = RULE.unwrap("binding", Page::stream(&wide));
    RULE.ok("creating the stream", created.ensure(StreamSettings::new())).await;
    let created = RULE.unwrap("binding", Sheet::stream(&wide));
    RULE.ok("creating the stream", created.ensure(StreamSettings::new())).await;
    RULE.entries(&subject).await;
    let pages = RULE.unwrap("binding", Page::stream(&broker));
    // `{"text":""}` has 11 bytes.
    RULE.ok("a payload at its limit", pages.append(&1, &Page::of(64 - 11))).await;
    let refused = RULE.fails("a payload over it", pages.append(&1, &Page::of(65 - 11))).await;
    RULE.refused("a payload over it", &refused, ErrorKind::TooLarge);
    RULE.that(!refused.is_transient(), "a payload too large must be permanent");
    let sheets = RULE.unwrap("binding", Sheet::stream(&broker));
    RULE.ok("a key at its limit", sheets.append(&"12345678".to_owned(), &Sheet { n: 1 })).await;
    for key in ["123456789", "12345.78"] {
        let refused = RULE.fails("a key over it", sheets.append(&key.to_owned(), &Sheet { n: 1 })).await;
        RULE.refused("a key over it", &refused, ErrorKind::Invalid);
        RULE.that(!refused.to_string().contains(key), "an error must not quote a key");
    }
    let large = RULE.unwrap("binding", Page::stream(&RULE.broker_with(&subject, limits().append_bytes(1 << 20))));
    RULE.ok("a large payload", large.append(&1, &Page::of(1_000_000))).await;
    let read = RULE.ok("reading", large.read(Start::Earliest, 10, Duration::ZERO)).await;
    let sizes: Vec<_> = read.iter().filter_map(|delivery| delivery.value().ok()).map(|page| page.text.len()).collect();
    RULE.same("what was stored", sizes, [53, 1_000_000]);

    let stream = RULE.unwrap("binding", Entry::stream(&broker));
    RULE.fill(&stream, 0..7).await;
    for (max, good) in [(0, false), (1, true), (5, true), (6, false), (usize::MAX, false)] {
        let read = RULE.within("reading a page", stream.read(Start::Earliest, max, Duration::ZERO)).await;
        match read {
            Ok(read) if good => RULE.same("a page", read.len(), max),
            Err(error) if !good => RULE.refused("a page out of bounds", &error, ErrorKind::Invalid),
            other => panic!("stream-limits: a page of {max}: {other:?}"),
        }
    }

    // A read that waits takes a place among the operations; when all are taken, the next waits and is refused.
    let mut reads: Vec<_> = (0..2).map(|_| Box::pin(stream.read(Start::Latest, 1, LONG))).collect();
    for read in &mut reads {
        RULE.that(give_up(read.as_mut(), 50).await.is_none(), "a read must wait while there is nothing");
    }
    let refused = RULE.fails("an operation too many", stream.append(&1, &Entry { n: 0 })).await;
    RULE.refused("an operation too many", &refused, ErrorKind::Overloaded);
    drop(reads);
    RULE.fill(&stream, [8]).await;
}

/// `stream-limits`: pages, batches and groups have their bounds, too, and names their grammar (B18, B19).
pub async fn ack_limits<S: Streams<Backend: AckGroups>>(subject: S) {
    let stream = RULE.bound_with(&subject, limits().read_records(5).batch_messages(3).groups(2));
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    RULE.fill(&stream, 0..5).await;
    for (max, good) in [(0, false), (5, true), (6, false)] {
        let outcomes = [
            RULE.within("reading", one.read(max, Duration::ZERO)).await.map(|_| ()),
            RULE.within("history", one.history(None, max)).await.map(|_| ()),
            RULE.within("claiming", one.claim(Duration::ZERO, max)).await.map(|_| ()),
            RULE.within("listing", group.pending(None, max)).await.map(|_| ()),
        ];
        for outcome in outcomes {
            let kind = outcome.err().map(|error| error.kind());
            RULE.same(&format!("a page of {max}"), kind, (!good).then_some(ErrorKind::Invalid));
        }
    }
    let told = places(&RULE.ok("history", one.history(None, 5)).await.deliveries);
    RULE.same("what is pending", told.len(), 5);
    let refused = RULE.fails("too many at once", one.ack(told[..4].iter().copied())).await;
    RULE.refused("too many at once", &refused, ErrorKind::Invalid);
    // Each counts once.
    let twice = told[..3].iter().chain(&told[..3]).copied();
    RULE.same("as many as may be", RULE.ok("acknowledging", one.ack(twice)).await, 3);
    RULE.same("none", RULE.ok("acknowledging", one.ack([])).await, 0);

    RULE.unwrap("the second group", stream.ack_group("h"));
    RULE.unwrap("the same again", stream.ack_group("g"));
    let refused = RULE.unwrap_err("a group too many", stream.ack_group("i"));
    RULE.refused("a group too many", &refused, ErrorKind::Overloaded);

    let other = RULE.bound(&subject);
    let long = "x".repeat(127);
    for name in ["0", "a_b-9", &long] {
        let group = RULE.unwrap("a good name", other.ack_group(name));
        RULE.unwrap("a good name", group.consumer(name));
    }
    for name in ["", ".", "..", "A", "Orders", "a.b", "a b", "a*b", "a/b", "-a", "_a", "ü", "{a}", &format!("{long}x")]
    {
        let refused = RULE.unwrap_err("a bad name", other.ack_group(name));
        RULE.refused(&format!("the group `{name}`"), &refused, ErrorKind::Invalid);
        let refused = RULE.unwrap_err("a bad name", group.consumer(name));
        RULE.refused(&format!("the consumer `{name}`"), &refused, ErrorKind::Invalid);
        let refused = RULE.fails("a bad name", group.remove_consumer(name, None)).await;
        RULE.refused(&format!("removing `{name}`"), &refused, ErrorKind::Invalid);
    }
    // Long names that are equal in their first half are two groups.
    let names = ["a", "b"].map(|end| format!("{}{end}", "x".repeat(64)));
    for name in &names {
        let group = RULE.unwrap("a long name", other.ack_group(name));
        RULE.that(RULE.ok("creating", group.ensure(Start::Earliest)).await, "a group of its own");
        RULE.takes("all of them", &RULE.consumer(&group, "one"), 10, 0..5).await;
    }
}
