use std::time::Duration;

use super::steps::{AWHILE, SECOND, SOON};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::error::{Error, ErrorKind};
use crate::stream::{Cursor, DurableSettings, Position, Start};

/// `cursor-exhausted`: what was handed out as often as it may be, and was never settled, is told to those who are bound,
/// never comes again and stays in the stream; the rest goes on.
pub async fn cursor_exhausted<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-exhausted");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..4).await;
    let settings = DurableSettings::new().ack_wait(SECOND).max_deliver(2);
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", settings).await;
    let far = RULE.far(&subject, "d");

    for attempt in 1..=2 {
        drop(RULE.hands("an attempt", &mut one, 0, attempt).await);
    }
    RULE.same("what was let go each time, and the rest", tells(RULE, &mut one, told[0]).await, Some((1, 1)));
    let next = RULE.hands("the next was let go, too", &mut one, 1, 2).await;
    RULE.ok("acknowledging", next.ack()).await;
    RULE.stands("what is exhausted is done with", &far, (2, 0), told[1]).await;
    RULE.done("the rest goes on", &mut one, [2]).await;
    for attempt in 1..=2 {
        let held = RULE.hands("an attempt", &mut one, 3, attempt).await;
        RULE.ok("refusing", held.nak(Duration::ZERO)).await;
    }
    RULE.same("what was refused each time, and nothing is left", tells(RULE, &mut one, told[3]).await, None);

    // To another that was bound then, once, and to nobody who wasn't.
    let mut heard = Vec::new();
    RULE.within("another is told", async {
        while heard.len() < 2 {
            match two.next_within(SOON).await {
                Ok(next) => RULE.that(next.is_none(), "nothing is left"),
                Err(error) => heard.push(place(RULE, &error)),
            }
        }
    })
    .await;
    RULE.same("another is told", heard, [told[0], told[3]]);
    let mut three = RULE.cursor(&far).await;
    for cursor in [&mut one, &mut two, &mut three] {
        RULE.hands_nothing("once, and to nobody who is bound since", cursor, AWHILE).await;
    }
    RULE.stands("all is done with", &far, (0, 0), told[3]).await;
    RULE.reads("nothing is lost", &stream, Start::Earliest, 0..4).await;
    RULE.fill(&stream, [4]).await;
    RULE.done("the control: it goes on", &mut three, [4]).await;
    // Settled at the last attempt, it isn't exhausted.
    RULE.fill(&stream, [5]).await;
    RULE.ok("refusing", RULE.hands("an attempt", &mut three, 5, 1).await.nak(Duration::ZERO)).await;
    RULE.ok("acknowledging", RULE.hands("the last attempt", &mut three, 5, 2).await.ack()).await;
    RULE.hands_nothing("the control: settled in time", &mut three, 2 * SECOND).await;
}

fn place(rule: Rule, error: &Error) -> Position {
    rule.same("how it is told", error.kind(), ErrorKind::Undelivered);
    let Some(position) = error.position() else { panic!("{}: where it stands is told", rule.0) };
    position
}

/// Waits until one is told as exhausted, and says what came with it, if anything is left: which of the two is first isn't
/// promised.
async fn tells<B: Cursors>(rule: Rule, cursor: &mut Cursor<Entry, B>, expected: Position) -> Option<(u64, u32)> {
    let (mut told, mut next) = (false, None);
    rule.within("it is told as exhausted", async {
        let mut idle = 0;
        while !told || (next.is_none() && idle < 10) {
            match cursor.next_within(SOON).await {
                Ok(Some(one)) => {
                    rule.that(next.is_none(), "it is told before what comes with it comes again");
                    next = Some((rule.number("what comes with it", &one), one.attempt()));
                }
                Ok(None) => idle += usize::from(told),
                Err(error) => {
                    rule.that(!told, "it is told once");
                    rule.same("where it stands", place(rule, &error), expected);
                    told = true;
                }
            }
        }
    })
    .await;
    next
}
