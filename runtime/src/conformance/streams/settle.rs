use std::time::Duration;

use super::Streams;
use super::steps::{HOUR, places};
use crate::capability::AckGroups;
use crate::conformance::rule::Rule;
use crate::stream::{Position, Positions, StreamSettings};

/// `ack-extend`: extending starts the clock anew of what is pending for the consumer, and of nothing else; it counts no
/// delivery.
pub async fn ack_extend<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-extend");
    const IDLE: Duration = Duration::from_millis(700);
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two, three) =
        (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"), RULE.consumer(&group, "three"));
    let told = RULE.fill(&stream, 0..6).await;
    RULE.takes("reading", &one, 3, 0..3).await;
    RULE.takes("reading", &two, 2, 3..5).await;
    RULE.ok("acknowledging", one.ack([told[2]])).await;
    RULE.idles(&group, IDLE).await;
    // Its own, another's, one that is settled, one that isn't delivered, one that isn't there.
    let asked = [told[0], told[3], told[2], told[5], Position::new(0, u128::MAX), Position::new(900, 1)];
    RULE.same("what was extended", RULE.ok("extending", one.extend(asked)).await, [told[0]]);
    RULE.same("none", RULE.ok("extending", one.extend([])).await, []);
    let pending = RULE.ok("listing", group.pending(None, 10)).await;
    let listed: Vec<_> = pending.iter().map(|entry| (&*entry.consumer, entry.attempt)).collect();
    RULE.same("owners and attempts stay", listed, [("one", 1), ("one", 1), ("two", 1), ("two", 1)]);
    let others = pending[1..].iter().map(|entry| entry.idle).min();
    RULE.that(Some(pending[0].idle) < others, "what was extended is the freshest");
    RULE.that(others >= Some(IDLE), "the clock of the others goes on");
    RULE.claims("all but what was extended", &three, IDLE, 10, [1, 3, 4]).await;
    // Taken over by another, it can't be extended any more.
    RULE.same("taken over", RULE.ok("extending", one.extend(told.clone())).await, [told[0]]);
    RULE.same("settled", RULE.ok("acknowledging", one.ack([told[0]])).await, 1);
    RULE.same("settled", RULE.ok("extending", one.extend(told)).await, []);
}

/// `ack-release`: what is released can be claimed at once, by any consumer, and its last delivery doesn't count.
pub async fn ack_release<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-release");
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"));
    let told = RULE.fill(&stream, 0..6).await;
    RULE.takes("reading", &one, 4, 0..4).await;
    RULE.takes("reading", &two, 1, [4]).await;
    RULE.claims("nothing has been idle so long", &two, HOUR, 10, []).await;
    // Its own, another's, one that isn't delivered, one that isn't there.
    let asked = [told[1], told[2], told[4], told[5], Position::new(0, u128::MAX), Position::new(900, 1)];
    RULE.ok("releasing", one.release(asked)).await;
    RULE.ok("releasing none", one.release([])).await;
    let back = RULE.claims("what was released, at once", &two, HOUR, 10, [1, 2]).await;
    RULE.that(back.iter().all(|delivery| delivery.attempt() == 1), "a delivery that was given back doesn't count");
    RULE.claims("once", &two, HOUR, 10, []).await;
    let pending = RULE.ok("listing", group.pending(None, 10)).await;
    let listed: Vec<_> = pending.iter().map(|entry| (&*entry.consumer, entry.attempt)).collect();
    RULE.same("whose they are", listed, [("one", 1), ("two", 1), ("two", 1), ("one", 1), ("two", 1)]);
    // The old owner can't release what it has lost, nor anyone what is settled.
    RULE.ok("acknowledging", two.ack([told[2]])).await;
    RULE.ok("releasing", one.release([told[1]])).await;
    RULE.ok("releasing", two.release([told[2]])).await;
    RULE.claims("the new owner keeps it", &one, HOUR, 10, []).await;
    // The control: released by its owner after a redelivery, one delivery is taken back, not all.
    RULE.claims("a redelivery", &one, Duration::ZERO, 1, [0]).await;
    RULE.ok("releasing", one.release([told[0]])).await;
    let back = RULE.claims("what was released again", &two, HOUR, 10, [0]).await;
    RULE.same("the attempt", back[0].attempt(), 2);
}

/// `ack-settled`: for each partition the highest position up to which everything is acknowledged is known.
pub async fn ack_settled<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-settled");
    let stream = RULE.entries_of(&subject, StreamSettings::new()).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    let settled = async || {
        let client = stream.client();
        let asking = S::Backend::settled(client, &group.bound.address);
        match RULE.within("asking what is settled", asking).await {
            Ok(settled) => settled,
            Err(failed) => panic!("ack-settled: asking what is settled: {failed:?}"),
        }
    };
    // A system may name a position between two records, so what counts is where reading goes on after it.
    let goes_on = async |what: &str, expected: std::ops::Range<u64>| {
        RULE.reads(what, &stream, settled().await, expected).await;
    };
    RULE.same("nothing is there", settled().await, Positions::new());
    let told = RULE.fill(&stream, 0..6).await;
    RULE.same("nothing was read", settled().await, Positions::new());
    let read = RULE.takes("reading", &one, 5, 0..5).await;
    goes_on("nothing is acknowledged", 0..6).await;
    RULE.ok("acknowledging", one.ack([told[1], told[3]])).await;
    goes_on("not the first", 0..6).await;
    RULE.ok("acknowledging", one.ack([told[0]])).await;
    goes_on("up to the gap", 2..6).await;
    RULE.ok("acknowledging", one.ack([told[2]])).await;
    goes_on("the gap is closed", 4..6).await;
    RULE.ok("acknowledging", one.ack(places(&read))).await;
    goes_on("all that was read", 5..6).await;
    RULE.takes("reading on", &one, 5, [5]).await;
    goes_on("what is pending", 5..6).await;
    RULE.ok("acknowledging", one.ack([told[5]])).await;
    goes_on("everything", 6..6).await;
    // A group made again there misses nothing and repeats nothing.
    let again = RULE.unwrap("looking up", stream.ack_group("again"));
    RULE.ok("creating", again.ensure(settled().await)).await;
    RULE.fill(&stream, [6]).await;
    RULE.takes("a group made again", &RULE.consumer(&again, "one"), 10, [6]).await;
}
