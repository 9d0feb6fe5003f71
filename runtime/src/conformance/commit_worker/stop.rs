use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::crew::{Sharers, began};
use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, gated, note};
use crate::stream::{Delivery, MemberSettings};
use crate::topic::Stop;

const RULE: Rule = Rule("worker-stop");
const HOUR: Duration = Duration::from_hours(1);
/// How long after its budget a worker that is stopped may return: what leaving may take, and a busy machine.
const SLACK: Duration = Duration::from_secs(6);

/// `worker-stop`: a stop takes nothing new, lets handlers finish, commits what finished and leaves: another member takes
/// over at once, and gets what wasn't handled.
pub async fn commit_worker_stop<S: Subject<Backend: CommitGroups>>(subject: S) {
    const COUNT: u64 = 60;
    for stops in [true, false] {
        let crew = Sharers::sharing(RULE, &subject, 1).await;
        crew.append(0..COUNT, COUNT).await;
        let worker = crew.sharer("a").concurrency(3);
        let script = async {
            crew.until("three handlers are called", |seen| began(seen) == 3).await;
            if stops {
                crew.stop.stop();
                // Its handlers wait for the gate, so it can't have ended.
                crew.append(COUNT..COUNT + 5, COUNT).await;
            }
            crew.gate.stop();
            if !stops {
                crew.handled(60).await;
                crew.stop.stop();
            }
        };
        crew.stopped(worker.run(gated), script).await;
        if !stops {
            crew.each_once("the control: without a stop all is handled", 0..COUNT);
            RULE.same("the control: all is committed", crew.left().await, 0);
            continue;
        }
        let handled: BTreeSet<u64> = crew.journal.done().into_iter().collect();
        RULE.same("a stop takes nothing new, and lets handlers finish", handled, BTreeSet::from([0, 1, 2]));
        RULE.same("what finished during the drain is committed", crew.committed_number(0).await, Some(2));
        // It has left: another has everything at once, and as if it had not been delivered.
        let other = RULE.ok("joining", crew.group.join(MemberSettings::new())).await;
        let mut left = Vec::new();
        RULE.within("another member takes over", async {
            while left.len() as u64 != COUNT + 2 {
                let read = RULE.ok("reading", other.read(1_000, Duration::from_millis(20))).await;
                left.extend(read.iter().map(|delivery| crew.number(delivery.position())));
            }
        })
        .await;
        RULE.same("what wasn't handled", left, (3..COUNT + 5).collect::<Vec<_>>());
    }

    stops_again::<S>(&subject).await;
}

/// Stopped again and again, each record is handled once.
async fn stops_again<S: Subject<Backend: CommitGroups>>(subject: &S) {
    const ROUNDS: [u64; 7] = [1, 7, 30, 2, 55, 12, 3];
    let mut crew = Sharers::sharing(RULE, subject, 3).await;
    // Each has a key of its own: one that waits behind another of its key would be passed, and leave a gap at a stop.
    crew.append(0..240, 240).await;
    let mut until = 0;
    for more in ROUNDS.into_iter().chain([240]) {
        until = u64::min(until + more, 240);
        crew.stop = Stop::new();
        let worker = crew.sharer("a").concurrency(4).read_ahead(50);
        let script = async {
            crew.handled(usize::try_from(until).expect("it is small")).await;
            crew.stop.stop();
        };
        // Partition by partition, so that what is handled is committed without a gap.
        let handler = async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            tokio::task::yield_now().await;
            doing.done();
            Ok(())
        };
        crew.stopped(worker.run(handler), script).await;
    }
    crew.each_once("stopped again and again", 0..240);
    RULE.same("everything is committed", crew.left().await, 0);
}

/// `worker-stop`: one budget bounds the drain, whatever a handler or the system does.
pub async fn commit_worker_stop_bounded<S: Subject<Backend: CommitGroups>>(subject: S) {
    const BUDGET: Duration = Duration::from_millis(300);
    // A handler that never returns is dropped, and its record comes again. The control returns in time.
    for stuck in [true, false] {
        let crew = Sharers::sharing(RULE, &subject, 1).await;
        crew.append(0..5, 5).await;
        let worker = crew.sharer("a").concurrency(2).drain(if stuck { BUDGET } else { HOUR }).deadline(HOUR);
        let running = worker.run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 2 {
                hand.gate.stopped().await;
            }
            doing.done();
            Ok(())
        });
        let stopped_at = async {
            crew.handled(4).await;
            crew.leaves("up to the stuck one", 3).await;
            crew.stop.stop();
            if !stuck {
                crew.gate.stop();
            }
            Instant::now()
        };
        let stopped = crew.stopped(running, stopped_at).await;
        RULE.that(stopped.elapsed() < BUDGET + SLACK, "a stop takes no longer than its budget");
        let dropped = count(&crew.journal.seen(), |seen| matches!(seen, Seen::Dropped { .. }));
        RULE.same("handlers that were dropped", dropped, usize::from(stuck));
        RULE.same("what is left", crew.left().await, if stuck { 3 } else { 0 });
    }

    // A system that is out of reach: what finished can't be committed, and comes again.
    let crew = Sharers::sharing(RULE, &subject, 1).await;
    crew.append(0..3, 3).await;
    let running = crew.sharer("a").concurrency(3).drain(BUDGET).run(gated);
    let stopped_at = async {
        crew.until("three handlers are called", |seen| began(seen) == 3).await;
        subject.refuse(true).await;
        subject.interrupt().await;
        crew.gate.stop();
        crew.handled(3).await;
        crew.stop.stop();
        Instant::now()
    };
    let stopped = crew.stopped(running, stopped_at).await;
    RULE.that(stopped.elapsed() < BUDGET + SLACK, "a stop takes no longer while the system is out of reach");
    subject.refuse(false).await;
    let crew = Sharers::sharing_beside(RULE, &subject, limits());
    let script = async {
        RULE.eventually("in reach again", async || crew.group.lag().await.is_ok()).await;
        crew.leaves("what couldn't be committed is handled again", 0).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").run(note), script).await;
}
