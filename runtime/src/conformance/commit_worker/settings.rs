use std::time::Duration;

use super::crew::Sharers;
use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, note, quick};
use crate::error::ErrorKind;
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-settings");

/// `worker-settings`: each setting has an effect, and one out of its bounds is refused by name before anything is done.
///
/// Concurrency is held by `worker-order`, what may be uncommitted by `worker-bounded`, the deadline by `worker-settle` and
/// the drain's budget by `worker-stop` and `worker-rebalance`.
pub async fn commit_worker_settings<S: Subject<Backend: CommitGroups>>(subject: S) {
    bad_ones::<S>(&subject).await;
    paused_keys::<S>(&subject).await;
    read_ahead::<S>(&subject).await;
    Box::pin(name::<S>(&subject)).await;
}

async fn bad_ones<S: Subject<Backend: CommitGroups>>(subject: &S) {
    let crew = Sharers::sharing(RULE, subject, 1).await;
    let zero = Duration::ZERO;
    let worker = crew.sharer("a").concurrency(0).read_ahead(0).read_ahead_bytes(0).deadline(zero).uncommitted(0);
    let worker = worker.drain(zero).paused_keys(0).backoff(quick().initial(zero)).name("No name");
    let refused = RULE.fails("bad settings", worker.run(note)).await;
    RULE.refused("bad settings", &refused, ErrorKind::Invalid);
    let said = refused.to_string();
    let names = [
        "concurrency",
        "read_ahead",
        "read_ahead_bytes",
        "deadline",
        "uncommitted",
        "drain",
        "paused_keys",
        "initial",
        "No name",
    ];
    let holds = |said: &str, name: &str| {
        RULE.that(
            said.contains(&format!("`{name}`")),
            &format!("every bad setting is named, but `{said}` lacks {name}"),
        );
    };
    for name in names {
        holds(&said, name);
    }
    let long = Duration::from_hours(25);
    let worker = crew.sharer("a").concurrency(1_025).deadline(long).uncommitted(1_000_001).drain(long);
    let said = RULE.fails("settings too large", worker.run(note)).await.to_string();
    for name in ["concurrency", "deadline", "uncommitted", "drain"] {
        holds(&said, name);
    }
    for most in [0, 65_537] {
        let refused =
            RULE.fails("a bad size of batches", crew.sharer("a").run_batches(most, async |_, _| Ok(()))).await;
        RULE.refused("a bad size of batches", &refused, ErrorKind::Invalid);
    }
    RULE.same("nothing was done", crew.journal.seen(), []);
}

async fn paused_keys<S: Subject<Backend: CommitGroups>>(subject: &S) {
    const FAILING: u64 = 4;
    for allowed in [3, 4] {
        let crew = Sharers::sharing(RULE, subject, 1).await;
        crew.append(0..20, 10).await;
        let worker = crew.sharer("a").paused_keys(allowed).run(async |delivery: Delivery<Work>, hand: Hand| {
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
        RULE.same("what failed first is not committed", crew.left().await, 20);
    }
}

/// What is read ahead is bounded: after a stop nobody has to wait for it, but while a handler is busy no more is taken.
async fn read_ahead<S: Subject<Backend: CommitGroups>>(subject: &S) {
    const COUNT: u64 = 200;
    for bytes in [false, true] {
        let crew = Sharers::sharing(RULE, subject, 2).await;
        crew.append_filled(0..COUNT, COUNT, 1_000).await;
        let worker = crew.sharer("a").concurrency(1);
        let worker = if bytes { worker.read_ahead_bytes(3_000) } else { worker.read_ahead(3) };
        let script = async {
            crew.handled(200).await;
            crew.leaves("all is committed", 0).await;
            crew.stop.stop();
        };
        crew.stopped(worker.run(note), script).await;
        crew.each_once("with little read ahead", 0..COUNT);
    }
}

/// A worker with a name gets its partitions back, and nobody else has them meanwhile.
async fn name<S: Subject<Backend: CommitGroups>>(subject: &S) {
    let assigned = |seen: &[Seen]| {
        let mut all: Vec<u32> = Vec::new();
        for seen in seen {
            match seen {
                Seen::Assigned(partitions) => all.extend(partitions),
                Seen::Revoked(partitions) => all.retain(|partition| !partitions.contains(partition)),
                _ => {}
            }
        }
        all.sort_unstable();
        all
    };
    // Those with names last: a group waits for them long after they have left.
    for named in [false, true] {
        let crew = Sharers::sharing(RULE, subject, 4).await;
        let stays = Sharers::sharing_beside(RULE, subject, limits());
        let of = |crew: &Sharers<S::Backend>, who: &'static str| {
            let worker = crew.sharer(who).drain(Duration::from_secs(20));
            if named { worker.name(who) } else { worker }
        };
        let script = async {
            let first = async {
                crew.until("its share", |seen| assigned(seen).len() == 2).await;
                stays.until("its share", |seen| assigned(seen).len() == 2).await;
                crew.stop.stop();
            };
            crew.stopped(of(&crew, "one").run(note), first).await;
            let before = assigned(&crew.journal.seen());
            if named {
                tokio::time::sleep(Duration::from_millis(600)).await;
                RULE.same("nobody else has them", assigned(&stays.journal.seen()).len(), 2);
            } else {
                stays.until("without a name they go at once", |seen| assigned(seen).len() == 4).await;
            }
            let again = Sharers::sharing_beside(RULE, subject, limits());
            let second = async {
                again.until("its share again", |seen| assigned(seen).len() == 2).await;
                if named {
                    RULE.same("the same partitions", assigned(&again.journal.seen()), before);
                }
                again.stop.stop();
            };
            again.stopped(of(&again, "one").run(note), second).await;
            stays.stop.stop();
        };
        Box::pin(stays.stopped(of(&stays, "two").run(note), script)).await;
        let failed = count(&stays.journal.seen(), |seen| matches!(seen, Seen::Failed(_) | Seen::Interrupted(_)));
        RULE.same("nothing went wrong", failed, 0);
    }
}
