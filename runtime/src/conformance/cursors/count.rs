use std::time::Duration;

use tokio::time::Instant;

use super::steps::{AWHILE, SECOND};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::error::ErrorKind;
use crate::stream::DurableSettings;

/// `cursor-count`: the attempt is 1 at first, and one more after each refusal and each ack wait that is over.
pub async fn cursor_count<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-count");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..3).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new().ack_wait(SECOND)).await;
    RULE.ok("refusing", RULE.hands("at first", &mut one, 0, 1).await.nak(Duration::ZERO)).await;
    let began = Instant::now();
    drop(RULE.hands("after a refusal", &mut one, 0, 2).await);
    let again = RULE.hands("after an ack wait", &mut one, 0, 3).await;
    RULE.took("after an ack wait", began, SECOND);
    // Whose it was doesn't matter.
    RULE.ok("refusing", again.nak(Duration::ZERO)).await;
    drop(RULE.hands("after a refusal elsewhere", &mut two, 0, 4).await);
    drop(RULE.hands("after an ack wait elsewhere", &mut one, 0, 5).await);
    RULE.ok("acknowledging", RULE.hands("after another", &mut one, 0, 6).await.ack()).await;
    RULE.done("the control: each has its own count", &mut one, [1]).await;
    // Somebody who is bound now counts on.
    drop(RULE.hands("another", &mut one, 2, 1).await);
    let mut three = RULE.cursor(&RULE.far(&subject, "d")).await;
    RULE.ok("acknowledging", RULE.hands("to a new cursor", &mut three, 2, 2).await.ack()).await;
    // An ack wait that is over for a cursor that is gone is over all the same.
    RULE.fill(&stream, [3]).await;
    drop(RULE.hands("the last", &mut three, 3, 1).await);
    drop(three);
    RULE.ok("acknowledging", RULE.hands("to one that stayed", &mut one, 3, 2).await.ack()).await;
}

/// `cursor-count`: what is refused comes when its delay is over, whatever the ack wait: neither earlier nor much later.
pub async fn cursor_nak<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-count");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..2).await;
    for (id, ack_wait) in [("short", SECOND), ("long", 30 * SECOND)] {
        let durable = RULE.created(&stream, id, DurableSettings::new().ack_wait(ack_wait)).await;
        let mut cursor = RULE.cursor(&durable).await;
        let mut attempt = 1;
        for delay in [Duration::ZERO, 2 * SECOND, AWHILE] {
            let held = RULE.hands("a delivery", &mut cursor, 0, attempt).await;
            let began = Instant::now();
            RULE.ok("refusing", held.nak(delay)).await;
            if delay > SECOND {
                RULE.hands_nothing("before its delay is over", &mut cursor, AWHILE).await;
            }
            let again = RULE.hands("what was refused", &mut cursor, 0, attempt + 1).await;
            RULE.took(&format!("a delay of {delay:?}"), began, delay);
            RULE.ok("refusing", again.nak(Duration::ZERO)).await;
            attempt += 2;
        }
        RULE.ok("acknowledging", RULE.hands("the last", &mut cursor, 0, attempt).await.ack()).await;
        RULE.done("the control: nothing waits any longer", &mut cursor, [1]).await;
    }
    // What isn't refused after all is as if it had been let go.
    RULE.fill(&stream, [2]).await;
    let mut cursor = RULE.cursor(&RULE.durable(&stream, "short")).await;
    let held = RULE.hands("another", &mut cursor, 2, 1).await;
    let refused = RULE.fails("a delay of more than a year", held.nak(Duration::from_hours(24 * 366))).await;
    RULE.refused("a delay of more than a year", &refused, ErrorKind::Invalid);
    RULE.ok("acknowledging", RULE.hands("it comes again", &mut cursor, 2, 2).await.ack()).await;
}

/// `cursor-count`: work that says that it goes on has its ack wait anew, and is still the same attempt.
pub async fn cursor_progress<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-count");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..3).await;
    let [mut one, mut two] =
        RULE.two_cursors(&subject, &stream, "d", DurableSettings::new().ack_wait(3 * SECOND)).await;
    let held = RULE.hands("the first", &mut one, 0, 1).await;
    for _ in 0..2 {
        tokio::time::sleep(2 * SECOND).await;
        RULE.ok("saying that it goes on", held.in_progress()).await;
    }
    RULE.hands_nothing("while it goes on", &mut two, SECOND).await;
    RULE.ok("acknowledging", held.ack()).await;
    // It counts no attempt, and without it the ack wait ends.
    let held = RULE.hands("the next", &mut two, 1, 1).await;
    tokio::time::sleep(SECOND).await;
    let began = Instant::now();
    RULE.ok("saying that it goes on", held.in_progress()).await;
    drop(held);
    let again = RULE.hands("the control: when it goes on no longer", &mut two, 1, 2).await;
    RULE.took("an ack wait begun anew", began, 3 * SECOND);
    RULE.ok("acknowledging", again.ack()).await;
    let began = Instant::now();
    drop(RULE.hands("the last", &mut two, 2, 1).await);
    RULE.ok("acknowledging", RULE.hands("the control: without a word", &mut two, 2, 2).await.ack()).await;
    RULE.took("an ack wait", began, 3 * SECOND);
}

/// `cursor-count`: each attempt has the ack wait of its place in the backoff, and the last one's after that.
pub async fn cursor_backoff<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-count");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..2).await;
    let waits = [AWHILE, 2 * SECOND, SECOND];
    let durable = RULE.created(&stream, "d", DurableSettings::new().backoff(waits)).await;
    let mut cursor = RULE.cursor(&durable).await;
    drop(RULE.hands("the first", &mut cursor, 0, 1).await);
    let mut began = Instant::now();
    for (attempt, wait) in (2..).zip([AWHILE, 2 * SECOND, SECOND, SECOND]) {
        drop(RULE.hands("after an ack wait", &mut cursor, 0, attempt).await);
        RULE.took(&format!("the ack wait before attempt {attempt}"), began, wait);
        began = Instant::now();
    }
    RULE.ok("acknowledging", RULE.hands("after the last", &mut cursor, 0, 6).await.ack()).await;
    RULE.done("the control: another", &mut cursor, [1]).await;
}
