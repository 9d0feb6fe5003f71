use std::time::Duration;

use super::steps::{AWHILE, SECOND};
use crate::capability::{Cursors, Verdict};
use crate::conformance::rule::Rule;
use crate::conformance::{Raw, Streams};
use crate::error::ErrorKind;
use crate::stream::{DurableSettings, Start};

/// `cursor-term`: what is refused for ever never comes again, and nothing of it is removed from the stream.
pub async fn cursor_term<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-term");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..4).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new().ack_wait(SECOND)).await;
    let held = RULE.hands("the first", &mut one, 0, 1).await;
    RULE.ok("refusing for ever", held.term("it is of no use")).await;
    RULE.stands("refused for ever", &RULE.far(&subject, "d"), (3, 0), told[0]).await;
    RULE.done("what comes after it", &mut one, [1]).await;
    // A reason has its bounds, and what wasn't refused after all is as if it had been let go.
    let mut attempt = 1;
    for bad in ["two\nlines".to_owned(), "a\0zero".to_owned(), "x".repeat(1_025)] {
        let refused = RULE.fails("a bad reason", RULE.hands("the next", &mut one, 2, attempt).await.term(bad)).await;
        RULE.refused("a bad reason", &refused, ErrorKind::Invalid);
        attempt += 1;
    }
    let held = RULE.hands("the control: it comes again", &mut two, 2, attempt).await;
    RULE.ok("a reason at its bound", held.term("é".repeat(512))).await;
    RULE.done("what comes after it", &mut two, [3]).await;
    for cursor in [&mut one, &mut two] {
        RULE.hands_nothing("never again", cursor, 2 * SECOND).await;
    }
    RULE.stands("all is settled", &RULE.far(&subject, "d"), (0, 0), told[3]).await;
    RULE.reads("nothing is removed", &stream, Start::Earliest, 0..4).await;
}

/// `cursor-recorded`: a settlement is recorded when it returns, for everybody, and isn't fenced.
pub async fn cursor_recorded<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-recorded");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..5).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new()).await;
    let far = RULE.far(&subject, "d");
    RULE.stands("before", &far, (5, 0), None).await;
    let held = RULE.hands("the first", &mut one, 0, 1).await;
    RULE.stands("while it is in flight", &far, (4, 1), None).await;
    RULE.ok("acknowledging", held.ack()).await;
    RULE.stands("recorded when it returns", &far, (4, 0), told[0]).await;
    RULE.done("the next", &mut two, [1]).await;
    RULE.stands("recorded when it returns", &far, (3, 0), told[1]).await;
    let mut three = RULE.cursor(&far).await;
    RULE.done("what was settled doesn't come to a new cursor", &mut three, 2..5).await;
    RULE.hands_nothing("nor to those who had it", &mut one, AWHILE).await;

    // By who had it before, while another has it.
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "late", DurableSettings::new().ack_wait(SECOND)).await;
    let far = RULE.far(&subject, "late");
    let late = RULE.hands("the first", &mut one, 0, 1).await;
    let again = RULE.hands("once its ack wait is over", &mut two, 0, 2).await;
    RULE.ok("acknowledging late", late.ack()).await;
    RULE.stands("settled for both", &far, (4, 0), told[0]).await;
    RULE.ok("acknowledging what is settled", again.ack()).await;
    RULE.stands("which changes nothing", &far, (4, 0), told[0]).await;
    // And by who had it before, when it is settled.
    let late = RULE.hands("the second", &mut two, 1, 1).await;
    let again = RULE.hands("once its ack wait is over", &mut one, 1, 2).await;
    RULE.ok("acknowledging", again.ack()).await;
    RULE.ok("refusing what is settled", late.nak(Duration::ZERO)).await;
    RULE.stands("which changes nothing", &far, (3, 0), told[1]).await;
    RULE.done("the control: the rest", &mut one, 2..5).await;
    RULE.hands_nothing("nothing comes again", &mut one, 2 * SECOND).await;
}

/// `cursor-recorded`: of what is settled at once, each has its own verdict and its own answer.
pub async fn cursor_settle<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-recorded");
    let stream = RULE.entries(&subject).await;
    let durable = RULE.created(&stream, "d", DurableSettings::new().in_flight(8)).await;
    let told = RULE.fill(&stream, 0..6).await;
    let handle = RULE.handle(&durable).await;
    let new: Vec<_> = told.iter().map(|at| (*at, 1)).collect();
    let held = RULE.pulls_each("all of them", &[&handle], &new).await;
    RULE.settles("nothing", &handle, Vec::new()).await;
    let verdicts = [
        Verdict::Ack,
        Verdict::Nak(Duration::ZERO),
        Verdict::Term("the suite's".to_owned()),
        Verdict::InProgress,
        Verdict::Ack,
        Verdict::Nak(2 * SECOND),
    ];
    RULE.settles("all of them", &handle, held.iter().cloned().zip(verdicts).collect()).await;
    RULE.stands("three of them are settled", &durable, (0, 3), told[0]).await;
    let mut again = RULE.pulls_each("what was refused", &[&handle], &[(told[1], 2)]).await;
    let none = RULE.pulls("nothing else yet", &handle, 8, AWHILE).await;
    RULE.same("nothing else yet", none.len(), 0);
    again.extend(RULE.pulls_each("what was refused for longer", &[&handle], &[(told[5], 2)]).await);
    again.push(held[3].clone());
    RULE.settles("what is left", &handle, again.into_iter().map(|ticket| (ticket, Verdict::Ack)).collect()).await;
    RULE.stands("all are settled", &durable, (0, 0), told[5]).await;
}

/// `poison-in-place`: what doesn't decode comes in its place, and can be settled in each way.
pub async fn cursor_poison<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("poison-in-place");
    let stream = RULE.entries(&subject).await;
    let durable = RULE.created(&stream, "d", DurableSettings::new()).await;
    let poison = || Raw::new(&b"\xff no JSON"[..]).attribute("partitionkey", "9");
    RULE.fill(&stream, [1]).await;
    for _ in 0..2 {
        RULE.within("appending past the backend", subject.append_raw(stream.address(), 0, poison())).await;
    }
    RULE.fill(&stream, [4]).await;
    let mut cursor = RULE.cursor(&durable).await;
    RULE.done("its neighbour", &mut cursor, [1]).await;
    for (attempt, verdict) in [(1, "nak"), (2, "ack"), (1, "term")] {
        let next = RULE.ok("poison", cursor.next()).await;
        RULE.that(next.value().is_err(), "poison must not decode");
        RULE.same("its bytes", &next.data()[..], b"\xff no JSON");
        RULE.same("its key and attempt", (next.key().ok(), next.attempt()), (Some(9), attempt));
        let settling = match verdict {
            "nak" => next.nak(Duration::ZERO),
            "ack" => next.ack(),
            _ => next.term("it doesn't decode"),
        };
        RULE.ok("settling poison", settling).await;
    }
    RULE.done("the control: its other neighbour", &mut cursor, [4]).await;
    RULE.hands_nothing("nothing comes again", &mut cursor, AWHILE).await;
}
