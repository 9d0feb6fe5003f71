use tokio::time::Instant;

use super::steps::{AWHILE, SECOND, SOON};
use crate::capability::Cursors;
use crate::conformance::rule::Rule;
use crate::conformance::streams::steps::{LONG, short};
use crate::conformance::{PATIENCE, Streams};
use crate::error::{Error, ErrorKind};
use crate::stream::{DurableSettings, StreamSettings};

/// `cursor-lost`: where the durable or its stream goes, every call is `Absent`, also one that waits; a durable that is
/// created anew begins anew.
pub async fn cursor_lost<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-lost");
    let stream = RULE.entries(&subject).await;
    let there = RULE.bound(&subject);
    RULE.fill(&stream, 0..2).await;
    let absent = |what: &str, error: &Error| RULE.same(what, error.kind(), ErrorKind::Absent);
    for stream_goes in [false, true] {
        let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new()).await;
        let durable = one.durable().clone();
        let far = RULE.durable(&there, "d");
        // One holds a delivery, and one waits.
        let held = RULE.hands("before", &mut one, 0, 1).await;
        let mut since = Instant::now();
        let removing = async {
            tokio::time::sleep(AWHILE).await;
            let removed = if stream_goes { there.delete().await } else { far.delete().await };
            since = Instant::now();
            RULE.that(RULE.unwrap("removing", removed), "it was there");
        };
        let (waited, ()) = RULE.within("one that waits", async { tokio::join!(two.next(), removing) }).await;
        absent("one that waits", &RULE.unwrap_err("one that waits", waited.map(drop)));
        RULE.that(since.elapsed() < PATIENCE / 2, "one that waits is told at once");
        absent("settling", &RULE.fails("settling", held.ack()).await);
        for cursor in [&mut one, &mut two] {
            absent("waiting without end", &RULE.fails("waiting", cursor.next()).await);
            absent("waiting", &RULE.fails("waiting", cursor.next_within(LONG)).await);
        }
        absent("asking", &RULE.fails("asking", durable.info()).await);
        absent("changing", &RULE.fails("changing", durable.update(DurableSettings::new())).await);
        absent("binding", &RULE.fails("binding", durable.cursor()).await);
        RULE.that(since.elapsed() < PATIENCE, "all is told at once");

        if stream_goes {
            RULE.ok("creating the stream", there.ensure(StreamSettings::new())).await;
            RULE.fill(&stream, 0..2).await;
            // The durable went with it.
            absent("binding", &RULE.fails("binding", durable.cursor()).await);
        }
        RULE.that(RULE.ok("creating", far.ensure(DurableSettings::new())).await, "it is created anew");
        if stream_goes {
            RULE.done("anew", &mut RULE.cursor(&durable).await, 0..2).await;
        } else {
            RULE.done("anew, for who was bound before", &mut one, [0]).await;
            RULE.done("and for the other", &mut two, [1]).await;
            RULE.ok("removing", far.delete()).await;
        }
    }
    // The control: one that waits where nothing goes is told nothing.
    let mut cursor = RULE.cursor(&RULE.durable(&there, "d")).await;
    RULE.hands_nothing("the control", &mut cursor, SOON).await;
}

/// `cursor-lost`: where the durable was removed and made anew before anybody looked, that is told once; what was handed out
/// before settles nothing of it.
pub async fn cursor_made_anew<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-lost");
    let stream = RULE.entries(&subject).await;
    let there = RULE.bound(&subject);
    let far = RULE.durable(&there, "d");
    RULE.fill(&stream, 0..3).await;
    let absent = |what: &str, error: &Error| RULE.same(what, error.kind(), ErrorKind::Absent);
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new()).await;
    RULE.done("before", &mut two, [0]).await;
    let held = RULE.hands("before", &mut one, 1, 1).await;
    RULE.that(RULE.ok("removing", far.delete()).await, "it was there");
    RULE.that(RULE.ok("creating", far.ensure(DurableSettings::new())).await, "it is made anew");
    // The record that is held is under way of the new one, too.
    let mut other = RULE.cursor(&far).await;
    RULE.done("of the new one", &mut other, [0]).await;
    let new = RULE.hands("of the new one", &mut other, 1, 1).await;
    tokio::time::sleep(AWHILE).await;
    absent("settling for the one before", &RULE.fails("settling for the one before", held.ack()).await);
    RULE.same("in flight after that", RULE.ok("looking", far.info()).await.in_flight, 1);
    RULE.ok("settling for the new one", new.ack()).await;
    // Whoever was bound before, ere anything of the new one is handed out there.
    for (cursor, n) in [(&mut one, 2), (&mut two, 3)] {
        absent("who was bound before", &RULE.fails("who was bound before", cursor.next_within(LONG)).await);
        RULE.done("once that is told", cursor, [n]).await;
        RULE.fill(&stream, [n + 1]).await;
    }
    // The control: who was bound since is told nothing.
    RULE.done("who was bound since", &mut other, [4]).await;
}

/// `cursor-trimmed`: what is removed from the stream before it is handed out is told, once, before what is left; what is
/// removed before it is settled comes no more and holds up nothing.
pub async fn cursor_trimmed<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-trimmed");
    let stream = RULE.entries_of(&subject, short::<S>()).await;
    let settings = DurableSettings::new().ack_wait(SECOND);
    let told = RULE.fill(&stream, 0..1).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", settings).await;
    let held = RULE.hands("the first", &mut one, 0, 1).await;
    let first = RULE.overrun(&subject, &stream, told[0]).await;
    RULE.ok("acknowledging what is gone", held.ack()).await;
    let removed = |what: &str, error: &Error, first| {
        RULE.same(what, (error.kind(), error.first_left()), (ErrorKind::Trimmed { certain: true }, Some(first)));
    };
    removed("what nobody was handed", &RULE.fails("what nobody was handed", two.next()).await, first);
    let next = RULE.ok("what is left", two.next()).await;
    RULE.same("what is left comes next", next.position(), first);
    RULE.same("the first attempt of what is left", next.attempt(), 1);
    // Let go, and gone before its ack wait is over.
    let gone = next.position();
    drop(next);
    let first = RULE.overrun(&subject, &stream, gone).await;
    removed("again", &RULE.fails("again", one.next()).await, first);
    let last = RULE.fill(&stream, [1]).await[0];
    let mut at = gone;
    RULE.within("up to the last, and told once", async {
        while at != last {
            let next = RULE.ok("what is left", one.next()).await;
            RULE.that(next.position() >= first && next.position() > at, "in order, of what is left");
            at = next.position();
            RULE.ok("acknowledging", next.ack()).await;
        }
    })
    .await;
    RULE.stands("all is settled", two.durable(), (0, 0), last).await;
    // The control: what was settled before it was removed is no loss, and neither is what a durable never was to hand out.
    let first = RULE.overrun(&subject, &stream, told[0]).await;
    let mut late = RULE.cursor(&RULE.created(&stream, "late", DurableSettings::new()).await).await;
    let next = RULE.ok("a durable that begins late", late.next()).await;
    RULE.same("it begins at the first", next.position(), first);
}
