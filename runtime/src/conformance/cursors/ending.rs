use std::time::Duration;

use super::steps::{AWHILE, SECOND, SOON};
use crate::capability::Cursors;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{ALL, LONG, give_up, places};
use crate::conformance::{PATIENCE, Streams};
use crate::error::{Error, ErrorKind, Outcome};
use crate::stream::{DurableSettings, InFlight, Position, Start};

/// `read-cancelled`: of a cursor's calls that are dropped at any step nothing is lost, and none counts as an attempt; a
/// settlement that is dropped is recorded, or isn't.
pub async fn cursor_cancelled<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("read-cancelled");
    const ROUNDS: u64 = 40;
    let stream = RULE.entries(&subject).await;
    let producer = RULE.bound(&subject);
    let durable = RULE.created(&stream, "d", DurableSettings::new()).await;
    let mut cursor = RULE.cursor(&durable).await;
    // One that gave up being bound holds nothing.
    for steps in 0..8 {
        drop(give_up(durable.cursor(), steps).await);
    }
    for n in 0..ROUNDS {
        drop(give_up(cursor.next(), n % 11).await);
        drop(give_up(cursor.next_within(LONG), n % 7).await);
        RULE.fill(&producer, [n]).await;
        let mut taken = false;
        for steps in [n % 15, n % 5, n % 3] {
            if let Some(next) = give_up(cursor.next(), steps).await {
                is_first(RULE, RULE.unwrap("taking", next), n).await;
                taken = true;
                break;
            }
            if let Some(next) = give_up(cursor.next_within(Duration::ZERO), steps).await
                && let Some(next) = RULE.unwrap("taking", next)
            {
                is_first(RULE, next, n).await;
                taken = true;
                break;
            }
        }
        if !taken {
            is_first(RULE, RULE.ok("what nobody took", cursor.next()).await, n).await;
        }
    }
    RULE.hands_nothing("nothing comes twice", &mut cursor, AWHILE).await;
    RULE.eventually("dropped calls are over", async || stream.broker().stats().operations == 0).await;

    let durable = RULE.created(&stream, "e", DurableSettings::new().ack_wait(AWHILE)).await;
    let mut cursor = RULE.cursor(&durable).await;
    let (mut n, mut attempt) = (0, 1);
    for steps in 0..12 {
        let next = RULE.ok("taking", cursor.next()).await;
        let got = (RULE.number("taking", &next), next.attempt());
        RULE.that(got == (n, attempt) || got == (n + 1, 1), &format!("{got:?} comes after {n}"));
        (n, attempt) = got;
        let settled = if steps % 2 == 0 {
            give_up(next.ack(), steps / 2).await
        } else {
            give_up(next.term("the suite's"), steps / 2).await
        };
        attempt += 1;
        if let Some(settled) = settled {
            RULE.unwrap("settling", settled);
            (n, attempt) = (n + 1, 1);
        }
    }
}

async fn is_first<B: Cursors>(rule: Rule, next: InFlight<'_, Entry, B>, n: u64) {
    rule.same("nothing is lost, and no attempt", (rule.number("taking", &next), next.attempt()), (n, 1));
    rule.ok("acknowledging", next.ack()).await;
}

/// `close-waits`: a close ends a cursor's calls that wait, with `Closed`; what it held comes again elsewhere.
pub async fn cursor_close<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("close-waits");
    let producer = RULE.entries(&subject).await;
    RULE.fill(&producer, 0..2).await;
    let stream = RULE.bound(&subject);
    let broker = stream.broker().clone();
    let settings = DurableSettings::new().ack_wait(3 * SECOND);
    let durable = RULE.created(&stream, "d", settings.clone()).await;
    let mut one = RULE.cursor(&durable).await;
    let (mut two, mut three) = (RULE.cursor(&durable).await, RULE.cursor(&durable).await);
    let held = RULE.hands("before", &mut one, 0, 1).await;
    let waiting = async {
        let (without, within) = tokio::join!(two.next(), three.next_within(LONG));
        (without.map(drop), within.map(drop))
    };
    let closing = async {
        RULE.eventually("they wait", async || broker.stats().operations == 1).await;
        RULE.ok("closing while they wait", broker.close(PATIENCE / 2)).await;
    };
    let ((without, within), ()) = RULE.within("closing", async { tokio::join!(waiting, closing) }).await;
    for waited in [without, within] {
        RULE.same("one that waited", RULE.unwrap_err("waiting", waited).kind(), ErrorKind::Closed);
    }
    let progress = RULE.fails("saying that it goes on", held.in_progress()).await;
    let failed = [
        progress,
        RULE.fails("acknowledging", held.ack()).await,
        RULE.fails("waiting", two.next()).await,
        RULE.fails("waiting", three.next_within(SOON)).await,
        RULE.fails("binding", durable.cursor()).await,
        RULE.fails("creating", durable.ensure(settings.clone())).await,
        RULE.fails("changing", durable.update(settings)).await,
        RULE.fails("asking", durable.info()).await,
        RULE.fails("removing", durable.delete()).await,
    ];
    for error in failed {
        RULE.refused("an operation after a close", &error, ErrorKind::Closed);
    }
    let left = broker.stats();
    let counts = [left.operations, left.setting_up, left.live, left.draining, left.callbacks, left.tasks];
    RULE.same("what is left after a close", counts, [0; 6]);
    let mut far = RULE.cursor(&RULE.durable(&producer, "d")).await;
    let again = RULE.hands("what was held comes again elsewhere", &mut far, 0, 2).await;
    RULE.ok("the control: acknowledging elsewhere", again.ack()).await;
    RULE.done("the control: elsewhere", &mut far, [1]).await;
}

fn transient(error: &Error) -> bool {
    error.is_transient() && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// `stream-refused`: a cursor outlives interruptions: nothing confirmed comes again, nothing is lost; out of reach every
/// operation fails as not applied.
pub async fn cursor_interrupted<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("stream-refused");
    let producer = RULE.entries(&subject).await;
    let durable = RULE.created(&producer, "d", DurableSettings::new().ack_wait(SECOND)).await;
    let stream = RULE.bound_with(&subject, limits().timeout(Duration::from_secs(2)));
    let mut cursor = RULE.cursor(&RULE.durable(&stream, "d")).await;
    // What was confirmed, and what may have been recorded.
    let (mut confirmed, mut unknown): (Vec<Position>, Vec<Position>) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let interrupting = async {
            for _ in 0..3 {
                tokio::time::sleep(AWHILE / 4).await;
                subject.interrupt().await;
            }
        };
        let waiting = async {
            // It fails, or outlives it.
            match cursor.next_within(AWHILE).await {
                Ok(next) => RULE.that(next.is_none(), "nothing is there"),
                Err(error) => RULE.that(transient(&error), &format!("an interruption is transient, not {error}")),
            }
        };
        RULE.within("an interruption", async { tokio::join!(waiting, interrupting) }).await;
        RULE.eventually("the producer goes on", async || producer.append(&1, &Entry { n }).await.is_ok()).await;
        RULE.fill(&producer, 3 * n..3 * n + 2).await;
        RULE.within("going on", async {
            loop {
                let next = match cursor.next_within(SOON).await {
                    Ok(Some(next)) => next,
                    Ok(None) => {
                        let info = durable.info().await;
                        if info.is_ok_and(|info| (info.waiting, info.in_flight) == (0, 0)) {
                            break;
                        }
                        continue;
                    }
                    Err(error) => {
                        RULE.that(transient(&error), &format!("going on: {error:?}"));
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        continue;
                    }
                };
                let at = next.position();
                RULE.that(!confirmed.contains(&at), "nothing confirmed comes again");
                if unknown.is_empty() && n == 1 {
                    subject.interrupt().await;
                }
                match next.ack().await {
                    Ok(()) => confirmed.push(at),
                    Err(error) => {
                        RULE.that(transient(&error), &format!("settling: {error:?}"));
                        unknown.push(at);
                    }
                }
            }
        })
        .await;
    }
    let all = places(&RULE.read("reading", &producer, Start::Earliest).await);
    RULE.that(all.len() >= 9 && all.len() < ALL, "all are there");
    let gone: Vec<_> = all.iter().filter(|at| !confirmed.contains(at) && !unknown.contains(at)).collect();
    RULE.same("nothing is lost", gone, Vec::<&Position>::new());

    let last = RULE.fill(&producer, [100]).await[0];
    let fresh = RULE.bound_with(&subject, limits().timeout(Duration::from_millis(500)));
    let fresh = RULE.durable(&fresh, "d");
    subject.refuse(true).await;
    let failed = [
        RULE.fails("asking", fresh.info()).await,
        RULE.fails("binding", fresh.cursor()).await,
        RULE.fails("creating", fresh.ensure(DurableSettings::new().ack_wait(SECOND))).await,
        RULE.fails("changing", fresh.update(DurableSettings::new().ack_wait(SECOND))).await,
        RULE.fails("removing", fresh.delete()).await,
    ];
    for error in failed {
        RULE.same("the outcome out of reach", error.outcome(), Outcome::NotApplied);
        RULE.that(error.is_transient(), &format!("out of reach must be transient, not {error}"));
    }
    match RULE.within("waiting out of reach", cursor.next_within(SOON)).await {
        Ok(next) => RULE.that(next.is_none(), "nothing comes out of reach"),
        Err(error) => RULE.that(transient(&error), &format!("out of reach must be transient, not {error}")),
    }
    subject.refuse(false).await;
    RULE.eventually("the control: in reach again", async || fresh.info().await.is_ok()).await;
    RULE.within("the cursor goes on", async {
        loop {
            if let Ok(Some(next)) = cursor.next_within(SOON).await
                && RULE.number("going on", &next) == 100
                && next.ack().await.is_ok()
            {
                break;
            }
        }
    })
    .await;
    RULE.stands("all is settled", &fresh, (0, 0), last).await;
}
