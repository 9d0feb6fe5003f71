use super::steps::{AWHILE, SOON};
use crate::capability::Cursors;
use crate::conformance::payloads::Place;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Spot;
use crate::conformance::streams::steps::{HOUR, later};
use crate::conformance::{Raw, Streams};
use crate::stream::{Cursor, DurableSettings, Positions, Start, StreamSettings};

/// `cursor-starts`: a durable begins at its start, which is settled when it is created: what is appended after it comes.
pub async fn cursor_starts<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-starts");
    let stream = RULE.entries(&subject).await;
    // In a stream without a record, too.
    RULE.created(&stream, "empty", DurableSettings::new().start(Start::Latest)).await;
    let mut told = RULE.fill(&stream, 0..3).await;
    let between = later().await;
    told.extend(RULE.fill(&stream, 3..5).await);
    let starts = [
        ("earliest", Start::Earliest, 0),
        ("latest", Start::Latest, 5),
        ("after", Start::from(told[1]), 2),
        ("last", Start::from(told[4]), 5),
        ("nowhere", Start::from(Positions::new()), 0),
        ("at", Start::At(between), 3),
        ("to-come", Start::At(between + HOUR), 5),
    ];
    let mut durables = vec![("empty", 0)];
    for (id, start, first) in starts {
        let durable = RULE.created(&stream, id, DurableSettings::new().start(start)).await;
        RULE.same(&format!("what waits for `{id}`"), RULE.info(&durable).await.waiting, 5 - first);
        durables.push((id, first));
    }
    RULE.fill(&stream, 5..7).await;
    for (id, first) in durables {
        let mut cursor = RULE.cursor(&RULE.far(&subject, id)).await;
        RULE.done(&format!("`{id}`"), &mut cursor, first..7).await;
        RULE.hands_nothing("nothing else", &mut cursor, SOON).await;
    }
}

/// `cursor-prefix`: a durable with a prefix hands out the records whose key begins with those parts and goes on after
/// them, and no others.
pub async fn cursor_prefix<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-prefix");
    let entries = RULE.bound(&subject);
    let spots = RULE.unwrap("binding", Spot::stream(entries.broker()));
    RULE.ok("creating the stream", spots.ensure(StreamSettings::new())).await;
    let keys = [
        Place::new("eu", 1, "a"),
        Place::new("eu2", 1, "a"),
        Place::new("e", 1, "a"),
        Place::new("eu", 12, "b"),
        Place::new("eu.1", 1, "a"),
        Place::new("EU", 1, "a"),
        Place::new("eu", 1, "eu"),
        Place::new("*", 1, "a"),
        Place::new(">", 1, "eu"),
        Place::new("a", 1, "eu"),
        Place::new("", 1, "a"),
    ];
    let plain = DurableSettings::new;
    let cases = [
        (plain(), (0..11).collect::<Vec<u64>>()),
        (plain().under::<Place>(("eu",)), vec![0, 3, 6]),
        (plain().under::<Place>(("eu", 1)), vec![0, 6]),
        (plain().under::<Place>(("eu.1",)), vec![4]),
        (plain().under::<Place>(("*",)), vec![7]),
        (plain().under::<Place>((">",)), vec![8]),
        (plain().under::<Place>(("",)), vec![10]),
        (plain().under::<Place>(("us",)), vec![]),
    ];
    for (n, key) in (0..).zip(&keys) {
        RULE.ok("appending", spots.append(key, &Spot { n })).await;
    }
    let mut durables = Vec::new();
    for (index, (settings, expected)) in cases.into_iter().enumerate() {
        let durable = RULE.unwrap("looking up", spots.durable(&RULE.module(&format!("d{index}"))));
        RULE.that(RULE.ok("creating", durable.ensure(settings.clone())).await, "it is created");
        let info = RULE.ok("asking", durable.info()).await;
        RULE.same("its prefix", &info.settings.prefix, &settings.prefix);
        let what = format!("under {:?}", settings.prefix);
        RULE.same(&format!("{what}, what waits"), info.waiting, expected.len() as u64);
        let mut cursor = RULE.ok("binding", durable.cursor()).await;
        takes(RULE, &what, &mut cursor, &expected).await;
        durables.push((what, cursor));
    }
    // Of what comes now, and of keys that aren't the stream's own: one that ends with the prefix, and none at all.
    let prefix = plain().under::<Place>(("eu",)).prefix.unwrap_or_default();
    let foreign = Raw::new(&b"{}"[..]).attribute("partitionkey", prefix);
    for raw in [foreign, Raw::new(&b"{}"[..])] {
        RULE.within("appending past the backend", subject.append_raw(spots.address(), 0, raw)).await;
    }
    RULE.ok("appending", spots.append(&keys[3], &Spot { n: 11 })).await;
    for (index, (what, mut cursor)) in durables.into_iter().enumerate().skip(1) {
        takes(RULE, &what, &mut cursor, if index == 1 { &[11] } else { &[] }).await;
    }
}

/// Says what comes at once, each for the first time, and acknowledges it.
async fn takes<B: Cursors>(rule: Rule, what: &str, cursor: &mut Cursor<Spot, B>, expected: &[u64]) {
    for n in expected {
        let next = rule.ok(what, cursor.next()).await;
        let got = next.value().map(|spot| spot.n).ok();
        rule.same(what, (got, next.attempt()), (Some(*n), 1));
        rule.ok(what, next.ack()).await;
    }
    let none = rule.ok(what, cursor.next_within(AWHILE / 4)).await;
    rule.that(none.is_none(), &format!("{what}: nothing else"));
}
