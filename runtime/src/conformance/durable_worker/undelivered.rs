use std::time::Duration;

use super::crew::{Takers, WAIT, wide};
use crate::capability::{Cursors, Verdict};
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::worker::crew::{Hand, Seen, Work, note};
use crate::error::ErrorKind;
use crate::stream::{Delivery, Start};

const RULE: Rule = Rule("worker-undelivered");

/// The numbers of what was told as never to come again.
fn undelivered<B: Cursors>(crew: &Takers<B>, seen: &[Seen]) -> Vec<u64> {
    let told = |seen: &Seen| if let Seen::Undelivered(position) = seen { Some(crew.number(*position)) } else { None };
    seen.iter().filter_map(told).collect()
}

/// `worker-undelivered`: what is handed out as often as the durable allows is told, and nothing else is lost with it.
pub async fn durable_worker_undelivered<S: Streams<Backend: Cursors>>(subject: S) {
    for most in [Some(2), None] {
        last_attempt::<S>(&subject, most).await;
    }
    for settles in [false, true] {
        left_by_a_dead_one::<S>(&subject, settles).await;
    }
}

/// The last attempt fails: it is kept while the worker runs, and told when it is given back.
async fn last_attempt<S: Streams<Backend: Cursors>>(subject: &S, most: Option<u32>) {
    let mut settings = wide().ack_wait(WAIT);
    settings.max_deliver = most;
    let crew = Takers::taking(RULE, subject, settings).await;
    // 6 is behind 0, of its key.
    crew.append(0..12, 6).await;
    let running = crew.taker("a").concurrency(4).run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        if doing.n == 0 && delivery.attempt() < 4 {
            return Err("the test's own error".into());
        }
        doing.done();
        Ok(())
    });
    let unsettled = |seen: &[Seen]| {
        let told = |seen: &Seen| match seen {
            Seen::Unsettled(position, attempt, kind) => Some((crew.number(*position), *attempt, *kind)),
            _ => None,
        };
        seen.iter().filter_map(told).collect::<Vec<_>>()
    };
    let script = async {
        if most.is_some() {
            crew.until("its last attempt is told", |seen| !unsettled(seen).is_empty()).await;
            crew.handled(10).await;
            crew.leaves("it is kept with what is behind it", (0, 2)).await;
            // What isn't kept is given up within this time.
            tokio::time::sleep(WAIT * 2).await;
            RULE.same("it is kept for as long as the worker runs", crew.left().await, (0, 2));
            RULE.that(undelivered(&crew, &crew.journal.seen()).is_empty(), "it isn't given up yet");
        } else {
            crew.handled(12).await;
            crew.leaves("the control: without a bound it succeeds in the end", (0, 0)).await;
        }
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    let attempts = crew.journal.began().into_iter().filter(|(n, _)| *n == 0).map(|(_, attempt)| attempt);
    RULE.same("its attempts", attempts.collect::<Vec<_>>(), (1..=most.unwrap_or(4)).collect::<Vec<_>>());
    let seen = crew.journal.seen();
    if most.is_none() {
        RULE.same("the control: nothing is given up", (unsettled(&seen), undelivered(&crew, &seen)), (vec![], vec![]));
        return;
    }
    RULE.same("what is told of the last attempt", unsettled(&seen), [(0, 2, ErrorKind::Callback)]);
    RULE.same("what is told as given up", undelivered(&crew, &seen), [0]);
    let crew = crew.again();
    let script = async {
        crew.handled(1).await;
        crew.leaves("nothing is left", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("b").run(note), script).await;
    RULE.same("what was behind it is handled next, and it is not", crew.journal.began(), [(6, 2)]);
    let there = RULE.ok("reading", crew.stream.read(Start::Earliest, 100, Duration::ZERO)).await;
    RULE.that(there.iter().any(|one| crew.number(one.position()) == 0), "it stays in the stream");
}

/// A worker is told what another one that died had for the last time.
async fn left_by_a_dead_one<S: Streams<Backend: Cursors>>(subject: &S, settles: bool) {
    let crew = Takers::taking(RULE, subject, wide().ack_wait(WAIT).max_deliver(1)).await;
    crew.append(0..4, 4).await;
    let dead = crew.handle().await;
    let taken = crew.takes("what the dead one had", &dead, 1).await;
    RULE.same("what the dead one had", taken[0].n, 0);
    if settles {
        crew.settles("what the dead one had settled", &dead, taken, &Verdict::Ack).await;
    }
    drop(dead);
    let script = async {
        crew.handled(3).await;
        if settles {
            // Long enough for what mustn't be told.
            tokio::time::sleep(WAIT * 2).await;
        } else {
            crew.until("it is told", |seen| !undelivered(&crew, seen).is_empty()).await;
        }
        crew.leaves("nothing is left", (0, 0)).await;
        crew.append([4], 4).await;
        crew.handled(4).await;
        crew.leaves("its key goes on", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").run(note), script).await;
    crew.each_once("the rest", 1..5);
    let expected: Vec<u64> = (0..1).filter(|_| !settles).collect();
    RULE.same("what is told as given up", undelivered(&crew, &crew.journal.seen()), expected);
}
