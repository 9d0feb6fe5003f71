use std::future::{Ready, ready};
use std::time::Duration;

use super::crew::{Sharers, began};
use crate::capability::CommitGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::steps::short;
use crate::conformance::worker::crew::{Hand, Seen, Work, count, done, note};
use crate::conformance::{Streams, Subject};
use crate::error::{ErrorKind, HandlerError};
use crate::stream::{Delivery, Start};

/// How a handler treats the fifth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fifth {
    Waits,
    Fails,
    Panics,
    Hangs,
    Riddles,
}

/// `worker-settle`: what is committed never passes a record that is under way or failed; that record and what comes after
/// it come again after a restart.
pub async fn commit_worker_progress<S: Subject<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-settle");
    const COUNT: u64 = 20;
    for fifth in [Fifth::Waits, Fifth::Fails, Fifth::Panics, Fifth::Hangs, Fifth::Riddles] {
        let crew = Sharers::sharing(RULE, &subject, 1).await;
        crew.append(0..5, COUNT).await;
        if fifth == Fifth::Riddles {
            crew.append_riddle(&subject, 5, COUNT).await;
        } else {
            crew.append([5], COUNT).await;
        }
        crew.append(6..COUNT, COUNT).await;
        let deadline = if fifth == Fifth::Hangs { Duration::from_millis(200) } else { Duration::from_mins(5) };
        let worker = crew.sharer("a").concurrency(4).deadline(deadline);
        let running = worker.run(move |delivery: Delivery<Work>, hand: Hand| async move {
            let doing = hand.begin(&delivery);
            match fifth {
                _ if doing.n != 5 => {}
                Fifth::Waits => hand.gate.stopped().await,
                Fifth::Fails => return Err("the test's own error".into()),
                Fifth::Panics => panic!("the test's own panic"),
                Fifth::Hangs => std::future::pending().await,
                Fifth::Riddles => unreachable!("it doesn't decode"),
            }
            doing.done();
            Ok(())
        });
        let unsettled = |seen: &[Seen]| {
            seen.iter().find_map(|seen| match seen {
                Seen::Unsettled(position, _, kind) => Some((crew.number(*position), *kind)),
                _ => None,
            })
        };
        let script = async {
            crew.handled(19).await;
            if fifth == Fifth::Waits {
                crew.leaves("up to what is under way", 15).await;
            } else {
                crew.until("the fifth stays unsettled", |seen| unsettled(seen).is_some()).await;
                crew.leaves("up to what failed", 15).await;
            }
            RULE.same(&format!("what is committed, {fifth:?}"), crew.committed_number(0).await, Some(4));
            // Long enough for a commit that mustn't come.
            tokio::time::sleep(Duration::from_millis(300)).await;
            RULE.same(&format!("what is committed later, {fifth:?}"), crew.committed_number(0).await, Some(4));
            crew.gate.stop();
            if fifth == Fifth::Waits {
                crew.leaves("the control: all is handled", 0).await;
            }
            crew.stop.stop();
        };
        crew.stopped(running, script).await;
        let told = match fifth {
            Fifth::Waits => None,
            Fifth::Fails => Some((5, ErrorKind::Callback)),
            Fifth::Panics => Some((5, ErrorKind::Panicked)),
            Fifth::Hangs => Some((5, ErrorKind::Timeout)),
            Fifth::Riddles => Some((5, ErrorKind::Malformed)),
        };
        RULE.same("what is told", unsettled(&crew.journal.seen()), told);
        if matches!(fifth, Fifth::Waits | Fifth::Riddles) {
            continue;
        }
        RULE.same("a stop commits no more", crew.committed_number(0).await, Some(4));
        let crew = crew.again();
        let script = async {
            crew.handled(15).await;
            crew.leaves("after a restart all is committed", 0).await;
            crew.stop.stop();
        };
        crew.stopped(crew.sharer("a").run(note), script).await;
        RULE.same("what comes again", crew.journal.done(), (5..COUNT).collect::<Vec<_>>());
    }
}

/// Fails this number.
#[allow(clippy::needless_pass_by_value, reason = "as a handler gets it")]
fn failing(delivery: Delivery<Work>, hand: Hand, fails: u64) -> Ready<Result<(), HandlerError>> {
    let doing = hand.begin(&delivery);
    if doing.n == fails {
        return ready(Err("the test's own error".into()));
    }
    doing.done();
    ready(Ok(()))
}

/// `worker-bounded`: how much of a partition is given and not committed is bounded: then it is held up, which is told, and
/// the others go on.
pub async fn commit_worker_held_up<S: Subject<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-bounded");
    const COUNT: u64 = 300;
    const MOST: usize = 20;
    const AHEAD: usize = 8;
    let crew = Sharers::sharing(RULE, &subject, 2).await;
    crew.append(0..COUNT, COUNT).await;
    let parts = crew.by_partition();
    let (stuck, other) = (&parts[&0], &parts[&1]);
    RULE.that(stuck.len() > 3 * MOST && other.len() > 3 * MOST, "both partitions have enough");
    let fails = stuck[3];
    let worker = crew.sharer("a").uncommitted(MOST).read_ahead(AHEAD);
    let running = worker.run(move |delivery, hand| failing(delivery, hand, fails));
    let held_up = |seen: &[Seen]| {
        seen.iter().find_map(|seen| if let Seen::HeldUp(position) = seen { Some(crew.number(*position)) } else { None })
    };
    let script = async {
        crew.until("it is told", |seen| held_up(seen).is_some()).await;
        crew.until("the other partition goes on", |seen| {
            let done = done(seen);
            other.iter().all(|n| done.contains(n))
        })
        .await;
        crew.leaves("the other partition is committed", stuck.len() as u64 - 3).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    RULE.same("what holds it up", held_up(&crew.journal.seen()), Some(fails));
    let told = count(&crew.journal.seen(), |seen| matches!(seen, Seen::HeldUp(_)));
    RULE.same("it is told once", told, 1);
    let handled = crew.journal.done().iter().filter(|n| stuck.contains(n)).count();
    let bounds = MOST - 3..=3 + MOST + 2 * AHEAD;
    RULE.that(bounds.contains(&handled), &format!("{handled} of the partition were handled"));
    // After a restart it goes on, from there.
    let crew = crew.again();
    let script = async {
        crew.leaves("all is committed", 0).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").uncommitted(MOST).run(note), script).await;
    RULE.same("what comes again", crew.journal.done(), &stuck[3..]);

    // One that is only slow holds up until it is done. The control has room for all.
    for most in [MOST, 1_000] {
        let crew = Sharers::sharing(RULE, &subject, 1).await;
        crew.append(0..COUNT, COUNT).await;
        let worker = crew.sharer("a").uncommitted(most).concurrency(2).read_ahead(AHEAD);
        let running = worker.run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 2 {
                hand.gate.stopped().await;
            }
            doing.done();
            Ok(())
        });
        let script = async {
            if most == MOST {
                crew.until("it is told", |seen| seen.iter().any(|seen| matches!(seen, Seen::HeldUp(_)))).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
                RULE.that(began(&crew.journal.seen()) <= MOST + 3 + 2 * AHEAD, "no more than may be uncommitted");
            } else {
                crew.handled(299).await;
            }
            crew.gate.stop();
            crew.leaves("it goes on by itself", 0).await;
            crew.stop.stop();
        };
        crew.stopped(running, script).await;
        crew.each_once("a slow one", 0..COUNT);
        let told = count(&crew.journal.seen(), |seen| matches!(seen, Seen::HeldUp(_)));
        RULE.that((told > 0) == (most == MOST), &format!("told {told} times where {most} may be uncommitted"));
    }
}

/// `commit-trimmed`: a worker is told what was removed before it could be read, and goes on at the first that is left.
pub async fn commit_worker_trimmed<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-trimmed");
    let crew = Sharers::sharing_of(RULE, &subject, short::<S>()).await;
    crew.append(0..3, 1).await;
    let (mut n, mut first) = (3, None);
    while first.is_none() {
        crew.append(n..n + 100, 1).await;
        n += 100;
        if !S::COUNTS {
            let last = crew.position(n - 2).expect("it was appended");
            RULE.within("removing past the backend", subject.remove_raw(crew.stream.address(), last)).await;
        }
        let left = crew.stream.read(Start::Earliest, limits().read_records, Duration::ZERO);
        first = RULE.ok("reading what is left", left).await.first().map(Delivery::position);
        first = first.filter(|first| crew.number(*first) > 2);
    }
    let first = first.map(|first| (crew.number(first), first)).expect("it was found");
    let script = async {
        crew.leaves("what is left is handled", 0).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").run(note), script).await;
    let seen = crew.journal.seen();
    RULE.that(seen.contains(&Seen::Trimmed(first.1)), &format!("the first that is left is told, not {seen:?}"));
    RULE.same("it goes on there", crew.journal.done().first().copied(), Some(first.0));
    let told = seen.iter().position(|seen| matches!(seen, Seen::Trimmed(_)));
    let handled = seen.iter().position(|seen| matches!(seen, Seen::Began { .. }));
    RULE.that(told < handled, "it is told before anything is handled");
    // The control: one that is up to date is told nothing.
    let crew = crew.again();
    let script = async {
        crew.append([n], 1).await;
        crew.handled(1).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").run(note), script).await;
    let told = count(&crew.journal.seen(), |seen| matches!(seen, Seen::Trimmed(_)));
    RULE.same("the control: nothing was removed", told, 0);
}
