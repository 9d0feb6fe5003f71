use std::time::Duration;

use super::Streams;
use super::entries::Entry;
use super::steps::{behind, short};
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
