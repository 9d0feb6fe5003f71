use std::time::Duration;

use super::crew::{Takers, wide};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::worker::crew::{Hand, Seen, Work, count, note, quick};
use crate::error::ErrorKind;
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-settings");

/// `worker-settings`: each setting has an effect, and one out of its bounds is refused by name before anything is done.
///
/// Concurrency is held by `worker-order`, the bounds of taking ahead by `worker-read-ahead`, the delays by `worker-retry` and
/// the drain's budget by `worker-stop`.
pub async fn durable_worker_settings<S: Streams<Backend: Cursors>>(subject: S) {
    bad_ones::<S>(&subject).await;
    paused_keys::<S>(&subject).await;
    backoff::<S>(&subject).await;
    deadline::<S>(&subject).await;
}

async fn bad_ones<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide()).await;
    crew.append(0..2, 2).await;
    let zero = Duration::ZERO;
    let worker = crew.taker("a").concurrency(0).read_ahead(0).read_ahead_bytes(0).deadline(zero);
    let worker = worker.drain(zero).paused_keys(0).retry_after(zero, zero).backoff(quick().initial(zero));
    let refused = RULE.fails("bad settings", worker.run(note)).await;
    RULE.refused("bad settings", &refused, ErrorKind::Invalid);
    let said = refused.to_string();
    let holds = |said: &str, name: &str| {
        let named = said.contains(&format!("`{name}`"));
        RULE.that(named, &format!("every bad setting is named, but `{said}` lacks {name}"));
    };
    let names =
        ["concurrency", "read_ahead", "read_ahead_bytes", "deadline", "drain", "paused_keys", "retry_after", "initial"];
    for name in names {
        holds(&said, name);
    }
    let long = Duration::from_hours(25);
    let worker = crew.taker("a").concurrency(1_025).deadline(long).drain(long).retry_after(long, long);
    let said = RULE.fails("settings too large", worker.run(note)).await.to_string();
    for name in ["concurrency", "deadline", "drain", "retry_after"] {
        holds(&said, name);
    }
    let worker = crew.taker("a").retry_after(Duration::from_secs(2), Duration::from_secs(1));
    holds(&RULE.fails("a first delay above the most", worker.run(note)).await.to_string(), "retry_after");
    for most in [0, 65_537] {
        let refused = RULE.fails("a bad size of batches", crew.taker("a").run_batches(most, async |_, _| Ok(()))).await;
        RULE.refused("a bad size of batches", &refused, ErrorKind::Invalid);
    }
    RULE.same("nothing was done", (crew.journal.seen(), crew.left().await), (vec![], (2, 0)));
    // The control: at the bounds it works.
    let script = async {
        crew.handled(2).await;
        crew.stop.stop();
    };
    let day = Duration::from_hours(24);
    let worker = crew.taker("a").concurrency(512).deadline(day).drain(day).retry_after(day, day);
    crew.stopped(worker.run(note), script).await;
}

async fn paused_keys<S: Streams<Backend: Cursors>>(subject: &S) {
    const FAILING: u64 = 4;
    for allowed in [3, 4] {
        // Each attempt is the last.
        let crew = Takers::taking(RULE, subject, wide().max_deliver(1)).await;
        crew.append(0..20, 10).await;
        let worker = crew.taker("a").paused_keys(allowed).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n % 10 < FAILING {
                return Err("the test's own error".into());
            }
            doing.done();
            Ok(())
        });
        let script = async {
            if allowed as u64 >= FAILING {
                crew.handled(12).await;
                crew.stop.stop();
            }
        };
        let (ended, ()) = crew.during(worker, script).await;
        if allowed as u64 >= FAILING {
            RULE.unwrap("the control: as many keys as may be paused", ended);
        } else {
            RULE.same("too many paused keys", RULE.unwrap_err("too many", ended).kind(), ErrorKind::Overloaded);
        }
    }
}

async fn backoff<S: Streams<Backend: Cursors>>(subject: &S) {
    for patient in [true, false] {
        let crew = Takers::taking(RULE, subject, wide()).await;
        let policy =
            if patient { quick().initial(Duration::from_secs(20)).max(Duration::from_secs(20)) } else { quick() };
        let failed = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Failed(_)));
        subject.refuse(true).await;
        subject.interrupt().await;
        let script = async {
            crew.until("the first attempt fails", |seen| failed(seen) >= 1).await;
            if patient {
                // Long enough for what mustn't be tried.
                tokio::time::sleep(Duration::from_millis(500)).await;
                RULE.same("attempts of a patient one", failed(&crew.journal.seen()), 1);
            } else {
                crew.until("several attempts fail", |seen| failed(seen) >= 6).await;
            }
            crew.stop.stop();
        };
        crew.stopped(crew.taker("a").backoff(policy).run(note), script).await;
        subject.refuse(false).await;
    }
}

async fn deadline<S: Streams<Backend: Cursors>>(subject: &S) {
    for patient in [true, false] {
        let crew = Takers::taking(RULE, subject, wide()).await;
        crew.append(0..2, 2).await;
        let deadline = Duration::from_millis(if patient { 30_000 } else { 100 });
        let worker = crew.taker("a").deadline(deadline).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 0 && delivery.attempt() == 1 {
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            doing.done();
            Ok(())
        });
        let script = async {
            crew.handled(2).await;
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
        let late = count(&crew.journal.seen(), |seen| matches!(seen, Seen::Retrying { kind: ErrorKind::Timeout, .. }));
        RULE.same("handlers over their deadline", late, usize::from(!patient));
    }
}
