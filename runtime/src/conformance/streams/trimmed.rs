use std::collections::BTreeMap;
use std::time::Duration;

use super::Streams;
use super::entries::Entry;
use super::steps::{behind, places, short};
use crate::capability::AckGroups;
use crate::conformance::rule::Rule;
use crate::error::{Error, ErrorKind};
use crate::stream::{Position, Positions, Start};

/// `read-after`: what was trimmed away before it could be read is an error with the first position left, never a silent
/// jump.
pub async fn read_trimmed<S: Streams>(subject: S) {
    const RULE: Rule = Rule("read-after");
    let stream = RULE.entries_of(&subject, short::<S>()).await;
    let told = RULE.fill(&stream, 0..3).await;
    let reader = RULE.bound(&subject);
    // The control: nothing is trimmed yet of what comes next, for the last record is always there.
    RULE.reads("before anything is trimmed away", &reader, told[1], [2]).await;
    let first = RULE.overrun(&subject, &stream, told[2]).await;

    for gone in &told {
        let overtaken = RULE.fails("reading after what is gone", reader.read(*gone, 10, Duration::ZERO)).await;
        told_of::<S>(RULE, &overtaken, first);
    }
    let read = RULE.ok("reading on", reader.read(Start::Earliest, 1, Duration::ZERO)).await;
    RULE.same("what is left begins there", read.first().map(crate::Delivery::position), Some(first));
    // No error: after what is there, and at the end, where nothing can have been removed unread.
    RULE.ok("reading after the first left", reader.read(first, 10, Duration::ZERO)).await;
    let last = RULE.read("reading", &reader, Start::Earliest).await.last().map(crate::Delivery::position);
    RULE.reads("an idle reader at the end", &reader, behind(last), []).await;
    RULE.reads("the latest", &reader, Start::Latest, []).await;
}

fn told_of<S: Streams>(rule: Rule, error: &Error, first: Position) {
    rule.refused("being overtaken", error, ErrorKind::Trimmed { certain: S::TRIMS_FOR_SURE });
    rule.same("the first position left", error.first_left(), Some(first));
}

/// `tail`: a tail that was overtaken is told once, and goes on at the first record left; the other partitions go on
/// where they were.
pub async fn tail_trimmed<S: Streams>(subject: S) {
    const RULE: Rule = Rule("tail");
    let stream = RULE.entries_of(&subject, short::<S>().partitions(2.min(S::PARTITIONS))).await;
    // Key 1 is overrun; another key, of the other partition, isn't.
    let told = RULE.fill(&stream, 0..3).await;
    let overrun = told[0].partition();
    let mut other = None;
    for key in if S::PARTITIONS > 1 { 2..u64::MAX } else { 0..0 } {
        let receipt = RULE.ok("appending", stream.append(&key, &Entry { n: key })).await;
        let position = RULE.stored("appending", receipt);
        if position.partition() != overrun {
            other = Some((key, position));
            break;
        }
    }
    let from: Positions = [told[0]].into_iter().chain(other.map(|(_, position)| position)).collect();
    let first = RULE.overrun(&subject, &stream, told[2]).await;
    if let Some((key, _)) = other {
        RULE.ok("appending", stream.append(&key, &Entry { n: 77 })).await;
    }

    let mut tail = stream.tail(from);
    let overtaken = RULE.fails("being overtaken", tail.receive()).await;
    told_of::<S>(RULE, &overtaken, first);
    let mut read = Vec::new();
    loop {
        let next = RULE.ok("reading on", tail.receive()).await;
        read.push((next.position(), RULE.number("reading on", &next)));
        if (other.is_none() || read.iter().any(|(_, n)| *n == 77))
            && read.iter().any(|(position, _)| *position == first)
        {
            break;
        }
    }
    let own: Vec<_> = read.iter().filter(|(position, _)| position.partition() == overrun).collect();
    RULE.same("what is left begins there", own[0].0, first);
    let others: Vec<_> = read.iter().filter(|(position, _)| position.partition() != overrun).map(|(_, n)| *n).collect();
    RULE.same("the other partition", others, other.map(|_| 77).into_iter().collect::<Vec<_>>());
}

/// `read-after`, of an ack group: what was removed before the group had it is told to one consumer, once, and reading goes on
/// at the first left. What the group has had isn't told.
pub async fn ack_trimmed<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("read-after");
    let stream = RULE.entries_of(&subject, short::<S>()).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"));
    let told = RULE.fill(&stream, 0..1).await;
    RULE.takes("before anything is removed", &one, 10, 0..1).await;
    let overtaken = |what: &str, error: &Error, first: Position| {
        RULE.that(matches!(error.kind(), ErrorKind::Trimmed { .. }), &format!("{what}: {error}"));
        RULE.same(what, error.first_left(), Some(first));
    };
    let first = RULE.overrun(&subject, &stream, told[0]).await;
    overtaken("reading", &RULE.fails("reading", one.read(1, Duration::ZERO)).await, first);
    let read = RULE.ok("reading on", one.read(1, Duration::ZERO)).await;
    RULE.same("what is left begins there", places(&read), [first]);
    RULE.ok("acknowledging", one.ack([first])).await;
    let read = RULE.ok("another isn't told", two.read(1, Duration::ZERO)).await;
    RULE.ok("acknowledging", two.ack(places(&read))).await;
    let settled = async || {
        loop {
            let read = RULE.ok("reading on", one.read(100, Duration::ZERO)).await;
            if read.is_empty() {
                return;
            }
            RULE.ok("acknowledging", one.ack(places(&read))).await;
        }
    };
    settled().await;

    // Nothing that was had is told when it goes, nor what went before a group was made.
    RULE.ok("acknowledging", one.ack(told)).await;
    RULE.ok("trimming", group.trim_acknowledged()).await;
    let last = RULE.fill(&stream, [7]).await[0];
    RULE.takes("after what is settled went", &one, 10, [7]).await;
    let late = RULE.group::<S>(&stream, "late").await;
    RULE.ok("a group that is made late", RULE.consumer(&late, "one").read(100, Duration::ZERO)).await;

    // The same for one who follows.
    let first = RULE.overrun(&subject, &stream, last).await;
    let mut tail = one.tail(false);
    overtaken("following", &RULE.fails("following", tail.receive()).await, first);
    RULE.same("following on", RULE.ok("following on", tail.receive()).await.position(), first);
}

/// `read-after`: a group is told of each partition before it is handed anything that stands behind what was removed there.
pub async fn ack_trimmed_partitions<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("read-after");
    const KEYS: u64 = 30;
    let stream = RULE.entries_of(&subject, short::<S>().partitions(4.min(S::PARTITIONS))).await;
    // All at once, and fewer than there are partitions.
    let groups = [(RULE.group::<S>(&stream, "wide").await, 100), (RULE.group::<S>(&stream, "narrow").await, 1)];
    let left = async || {
        let mut left: BTreeMap<u32, Vec<Position>> = BTreeMap::new();
        for position in places(&RULE.read("reading what is left", &stream, Start::Earliest).await) {
            left.entry(position.partition()).or_default().push(position);
        }
        left
    };
    let batch: Vec<_> = (0..KEYS).map(|n| Entry { n }).collect();
    let fill = async || {
        let outcomes = RULE.ok("appending", stream.append_all(batch.iter().map(|entry| (&entry.n, entry)))).await;
        outcomes.into_iter().map(|outcome| RULE.stored("appending", RULE.unwrap("appending", outcome))).collect()
    };
    let told: Vec<Position> = fill().await;
    let left = loop {
        let more: Vec<Position> = fill().await;
        if !S::COUNTS {
            for position in more {
                RULE.within("removing past the backend", subject.remove_raw(stream.address(), position)).await;
            }
            fill().await;
        }
        let left = left().await;
        if left.values().all(|left| told.iter().all(|told| told.partition() != left[0].partition() || *told < left[0]))
        {
            break left;
        }
    };
    for (group, max) in groups {
        let one = RULE.consumer(&group, "one");
        let mut read: BTreeMap<u32, Vec<Position>> = BTreeMap::new();
        let mut first_left = BTreeMap::new();
        while read != left {
            match RULE.within("reading", one.read(max, Duration::ZERO)).await {
                Ok(page) => {
                    RULE.that(!page.is_empty() && page.len() <= max, &format!("{} of {max} were read", page.len()));
                    for position in places(&page) {
                        let partition = position.partition();
                        RULE.that(first_left.contains_key(&partition), &format!("{position} came before it was told"));
                        read.entry(partition).or_default().push(position);
                    }
                }
                Err(error) => {
                    RULE.that(matches!(error.kind(), ErrorKind::Trimmed { .. }), &format!("reading: {error}"));
                    let Some(first) = error.first_left() else { panic!("{}: {error} tells no position", RULE.0) };
                    let before = first_left.insert(first.partition(), first);
                    RULE.same("told once of each partition", before, None);
                }
            }
        }
        let firsts: BTreeMap<_, _> = left.iter().map(|(partition, left)| (*partition, left[0])).collect();
        RULE.same("the first positions left", first_left, firsts);
    }
}
