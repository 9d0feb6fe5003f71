use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::crew::{HOUR, Takers, WAIT, began, partitions, wide};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, gated, note};
use crate::stream::Delivery;
use crate::topic::Stop;

const RULE: Rule = Rule("worker-stop");
/// How long after its budget a worker that is stopped may return: what giving back may take, and a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// `worker-stop`: a stop takes nothing new, lets handlers finish, settles what finished and gives back the rest at once.
pub async fn durable_worker_stop<S: Streams<Backend: Cursors>>(subject: S) {
    for partitions in partitions::<S>() {
        gives_back::<S>(&subject, partitions, 256).await;
        gives_back::<S>(&subject, partitions, 2).await;
        never_loses::<S>(&subject, partitions).await;
    }
}

async fn gives_back<S: Streams<Backend: Cursors>>(subject: &S, partitions: u32, read_ahead: usize) {
    const COUNT: u64 = 60;
    for stops in [true, false] {
        let crew = Takers::taking_with(RULE, subject, partitions, wide(), limits()).await;
        crew.append(0..COUNT, COUNT).await;
        let worker = crew.taker("a").concurrency(3).read_ahead(read_ahead);
        let script = async {
            crew.until("three handlers are called", |seen| began(seen) == 3).await;
            if read_ahead as u64 > COUNT {
                crew.leaves("all are taken ahead", (0, COUNT)).await;
            }
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
            RULE.same("the control: all is acknowledged", crew.left().await, (0, 0));
            continue;
        }
        let handled: BTreeSet<u64> = crew.journal.done().into_iter().collect();
        RULE.same("a stop takes nothing new, and lets handlers finish", handled.len(), 3);
        let (waiting, in_flight) = crew.left().await;
        RULE.same("what finished during the drain is acknowledged", waiting + in_flight, COUNT + 5 - 3);
        // Every other is there at once, for anyone. What was handed out counts one attempt more.
        let other = crew.handle().await;
        let taken = crew.takes("what was given back", &other, 62).await;
        let numbers: BTreeSet<u64> = taken.iter().map(|one| one.n).collect();
        let rest: BTreeSet<u64> = (0..COUNT + 5).filter(|n| !handled.contains(n)).collect();
        RULE.same("what wasn't handled", numbers, rest);
        let again = taken.iter().filter(|one| one.attempt == 2).count() as u64;
        if S::COUNTS_UNARRIVED {
            RULE.same("what was handed out counts one attempt more", again, in_flight);
        } else {
            // What was taken ahead before the stop has arrived; what was appended after it may have been on its way.
            let arrived = if read_ahead as u64 > COUNT { COUNT - 3 } else { 0 };
            RULE.that(
                (arrived..=in_flight).contains(&again),
                &format!("{again} of {in_flight} count one attempt more"),
            );
        }
        RULE.that(taken.iter().all(|one| one.attempt <= 2), "it counts one attempt and no more");
        RULE.same("nothing else is left", crew.left().await, (0, 62));
    }
}

/// Stopped again and again, each is handled once.
async fn never_loses<S: Streams<Backend: Cursors>>(subject: &S, partitions: u32) {
    const COUNT: u64 = 240;
    let mut crew = Takers::taking_with(RULE, subject, partitions, wide(), limits()).await;
    crew.append(0..COUNT, 40).await;
    let mut until = 0;
    for more in [1, 7, 30, 2, 55, 12, 3].into_iter().cycle() {
        until = u64::min(until + more, COUNT);
        crew.stop = Stop::new();
        let worker = crew.taker("a").concurrency(4).read_ahead(50);
        let script = async {
            crew.handled(usize::try_from(until).expect("it is small")).await;
            crew.stop.stop();
        };
        let handler = async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            tokio::task::yield_now().await;
            doing.done();
            Ok(())
        };
        crew.stopped(worker.run(handler), script).await;
        if until == COUNT {
            break;
        }
    }
    crew.each_once("stopped again and again", 0..COUNT);
    crew.one_at_a_time(40);
    RULE.same("everything is acknowledged", crew.left().await, (0, 0));
}

/// `worker-stop`: one budget bounds the drain, whatever a handler or the system does.
pub async fn durable_worker_stop_bounded<S: Streams<Backend: Cursors>>(subject: S) {
    const BUDGET: Duration = Duration::from_millis(300);
    // A handler that never returns: it is dropped, and its delivery given back. The control returns in time.
    for stuck in [true, false] {
        let crew = Takers::taking(RULE, &subject, wide()).await;
        crew.append(0..5, 5).await;
        let worker = crew.taker("a").concurrency(2).drain(if stuck { BUDGET } else { HOUR }).deadline(HOUR);
        let running = worker.run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 0 {
                hand.gate.stopped().await;
            }
            doing.done();
            Ok(())
        });
        let stopped_at = async {
            crew.handled(4).await;
            crew.leaves("the stuck one isn't settled", (0, 1)).await;
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
        RULE.same("what is left", crew.left().await, (0, u64::from(stuck)));
        if stuck {
            let other = crew.handle().await;
            let back = crew.takes("what is given back of a handler that was dropped", &other, 1).await;
            RULE.same("it counts", (back[0].n, back[0].attempt), (0, 2));
        }
    }

    // A system that is out of reach: what finished can't be settled, and comes again after its ack wait.
    let crew = Takers::taking(RULE, &subject, wide().ack_wait(WAIT)).await;
    crew.append(0..3, 3).await;
    let running = crew.taker("a").concurrency(3).drain(BUDGET).run(gated);
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
    let crew = crew.again();
    let script = async {
        crew.in_reach().await;
        crew.leaves("what couldn't be settled is handled again", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("b").run(note), script).await;
    let mut again = crew.journal.began();
    again.sort_unstable();
    RULE.same("what couldn't be settled comes again once", again, [(0, 2), (1, 2), (2, 2)]);
}
