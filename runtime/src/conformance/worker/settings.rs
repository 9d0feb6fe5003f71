use std::time::Duration;

use super::crew::{Crew, Hand, Seen, Work, count, note, quick};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::Rule;
use crate::error::ErrorKind;
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-settings");

/// `worker-settings`: each setting has an effect, and one out of its bounds is refused by name before anything is done.
///
/// Concurrency is held by `worker-order`, the bounds of reading ahead by `worker-read-ahead`, the deadline by
/// `worker-settle`, the idle time by `worker-claim` and the drain's budget by `worker-stop`.
pub async fn worker_settings<S: Subject<Backend: AckGroups>>(subject: S) {
    bad_ones::<S>(&subject).await;
    paused_keys::<S>(&subject).await;
    backoff::<S>(&subject).await;
    deadline::<S>(&subject).await;
}

async fn bad_ones<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    let zero = Duration::ZERO;
    let worker = crew.worker("a").concurrency(0).read_ahead(0).read_ahead_bytes(0).deadline(zero).claim_after(zero);
    let worker = worker.drain(zero).paused_keys(0).backoff(quick().initial(zero));
    let refused = RULE.fails("bad settings", worker.run(note)).await;
    RULE.same("bad settings", refused.kind(), ErrorKind::Invalid);
    let said = refused.to_string();
    let names =
        ["concurrency", "read_ahead", "read_ahead_bytes", "deadline", "claim_after", "drain", "paused_keys", "initial"];
    for name in names {
        RULE.that(
            said.contains(&format!("`{name}`")),
            &format!("every bad setting is named, but `{said}` lacks {name}"),
        );
    }
    let long = Duration::from_hours(25);
    let worker = crew.worker("a").concurrency(1_025).deadline(long).claim_after(long).drain(long);
    let said = RULE.fails("settings too large", worker.run(note)).await.to_string();
    for name in ["concurrency", "deadline", "claim_after", "drain"] {
        RULE.that(
            said.contains(&format!("`{name}`")),
            &format!("every bad setting is named, but `{said}` lacks {name}"),
        );
    }
    for most in [0, 65_537] {
        let refused =
            RULE.fails("a bad size of batches", crew.worker("a").run_batches(most, async |_, _| Ok(()))).await;
        RULE.same("a bad size of batches", refused.kind(), ErrorKind::Invalid);
    }
    let refused = RULE.fails("a bad name", crew.worker("No name").run(note)).await;
    RULE.same("a bad name", refused.kind(), ErrorKind::Invalid);
    RULE.same("nothing was done", crew.journal.seen(), []);
}

async fn paused_keys<S: Subject<Backend: AckGroups>>(subject: &S) {
    const FAILING: u64 = 4;
    for allowed in [3, 4] {
        let crew = Crew::start(RULE, subject).await;
        crew.append(0..20, 10).await;
        let worker = crew.worker("a").paused_keys(allowed).run(async |delivery: Delivery<Work>, hand: Hand| {
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

async fn backoff<S: Subject<Backend: AckGroups>>(subject: &S) {
    for patient in [true, false] {
        let crew = Crew::start(RULE, subject).await;
        let policy =
            if patient { quick().initial(Duration::from_secs(20)).max(Duration::from_secs(20)) } else { quick() };
        let failed = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Failed(_)));
        subject.refuse(true).await;
        subject.interrupt().await;
        let script = async {
            crew.until("the first attempt fails", |seen| failed(seen) >= 1).await;
            if patient {
                tokio::time::sleep(Duration::from_millis(500)).await;
                RULE.same("attempts of a patient one", failed(&crew.journal.seen()), 1);
            } else {
                crew.until("several attempts fail", |seen| failed(seen) >= 6).await;
            }
            crew.stop.stop();
        };
        crew.stopped(crew.worker("a").backoff(policy).run(note), script).await;
        subject.refuse(false).await;
    }
}

async fn deadline<S: Subject<Backend: AckGroups>>(subject: &S) {
    for patient in [true, false] {
        let crew = Crew::start(RULE, subject).await;
        crew.append(0..2, 2).await;
        let deadline = if patient { Duration::from_secs(30) } else { Duration::from_millis(100) };
        let worker = crew.worker("a").deadline(deadline).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 0 {
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            doing.done();
            Ok(())
        });
        let script = async {
            crew.until("the second is handled", |seen| seen.contains(&Seen::Done { n: 1 })).await;
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
        let late = count(&crew.journal.seen(), |seen| matches!(seen, Seen::Unsettled(_, _, ErrorKind::Timeout)));
        RULE.same("handlers over their deadline", late, usize::from(!patient));
    }
}
