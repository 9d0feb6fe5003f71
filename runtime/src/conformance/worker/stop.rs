use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::crew::{Crew, Hand, Seen, Work, count, gated, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::stream::{Delivery, StreamSettings};
use crate::topic::Stop;

const RULE: Rule = Rule("worker-stop");
const HOUR: Duration = Duration::from_hours(1);
/// How long after its budget a worker that is stopped may return: what giving back may take, and a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// `worker-stop`: a stop takes nothing new, lets handlers finish, settles what finished and gives back the rest at once.
pub async fn worker_stop<S: Subject<Backend: AckGroups>>(subject: S) {
    for partitions in [1, 4] {
        gives_back::<S>(&subject, partitions, 256).await;
        gives_back::<S>(&subject, partitions, 2).await;
    }
    never_loses::<S>(&subject).await;
}

async fn gives_back<S: Subject<Backend: AckGroups>>(subject: &S, partitions: u32, read_ahead: usize) {
    const COUNT: u64 = 60;
    for stops in [true, false] {
        let settings = StreamSettings::new().partitions(partitions);
        let crew = Crew::with(RULE, subject, settings, limits()).await;
        crew.append(0..COUNT, COUNT).await;
        let worker = crew.worker("a").concurrency(3).read_ahead(read_ahead);
        let script = async {
            let began = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Began { .. }));
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
            continue;
        }
        let handled: BTreeSet<u64> = crew.journal.done().into_iter().collect();
        RULE.same("a stop takes nothing new, and lets handlers finish", handled.len(), 3);
        let pending = crew.pending().await;
        RULE.that(handled.is_disjoint(&pending), "what finished during the drain is acknowledged");
        // Every other is there at once, for anyone, and as if it had not been delivered.
        let other = RULE.unwrap("a consumer", crew.group.consumer("other"));
        let mut left: BTreeSet<u64> = (0..COUNT + 5).filter(|n| !handled.contains(n)).collect();
        RULE.within("what was given back is claimed or read", async {
            while !left.is_empty() {
                let claimed = RULE.ok("claiming", other.claim(HOUR, 1_000)).await.deliveries;
                let read = RULE.ok("reading", other.read(1_000, Duration::from_millis(1))).await;
                for delivery in claimed.into_iter().chain(read) {
                    let n = crew.number(delivery.position());
                    RULE.that(left.remove(&n), &format!("{n} came twice, or was handled"));
                    RULE.same(&format!("the attempt of {n}, which no handler had"), delivery.attempt(), 1);
                }
            }
        })
        .await;
    }
}

/// Stopped again and again, each entry is handled once.
async fn never_loses<S: Subject<Backend: AckGroups>>(subject: &S) {
    const COUNT: u64 = 240;
    let mut crew = Crew::with(RULE, subject, StreamSettings::new().partitions(3), limits()).await;
    crew.append(0..COUNT, 40).await;
    let mut until = 0;
    for (round, more) in [1, 7, 30, 2, 55, 12, 3].into_iter().cycle().enumerate() {
        until = usize::min(until + more, usize::try_from(COUNT).expect("it is small"));
        crew.stop = Stop::new();
        let name = ["a", "b", "c"][round % 3];
        let worker = crew.worker(name).concurrency(4).read_ahead(50);
        let script = async {
            crew.handled(until).await;
            crew.stop.stop();
        };
        let handler = async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            tokio::task::yield_now().await;
            doing.done();
            Ok(())
        };
        crew.stopped(worker.run(handler), script).await;
        if until as u64 == COUNT {
            break;
        }
    }
    crew.each_once("stopped again and again", 0..COUNT);
    crew.pending_is("everything is acknowledged", []).await;
    for (n, attempt) in crew.journal.began() {
        RULE.same(&format!("the attempt of {n}, whose handler was never dropped"), attempt, 1);
    }
}

/// `worker-stop`: one budget bounds the drain, whatever a handler or the system does.
pub async fn worker_stop_bounded<S: Subject<Backend: AckGroups>>(subject: S) {
    const BUDGET: Duration = Duration::from_millis(300);
    // A handler that never returns: it is dropped, and its entry given back. The control returns in time.
    for stuck in [true, false] {
        let crew = Crew::start(RULE, &subject).await;
        crew.append(0..5, 5).await;
        let worker = crew.worker("a").concurrency(2).drain(if stuck { BUDGET } else { HOUR }).deadline(HOUR);
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
            crew.pending_is("the stuck one is pending", [0]).await;
            crew.stop.stop();
            if !stuck {
                crew.gate.stop();
            }
            Instant::now()
        };
        let began = crew.stopped(running, stopped_at).await;
        RULE.that(began.elapsed() < BUDGET + SLACK, "a stop takes no longer than its budget");
        let dropped = count(&crew.journal.seen(), |seen| matches!(seen, Seen::Dropped { .. }));
        RULE.same("handlers that were dropped", dropped, usize::from(stuck));
        let other = RULE.unwrap("a consumer", crew.group.consumer("other"));
        let back = RULE.ok("claiming", other.claim(HOUR, 10)).await.deliveries;
        RULE.same("what is given back of a handler that was dropped", back.len(), usize::from(stuck));
        RULE.that(back.iter().all(|one| one.attempt() == 1), "a delivery that was given back doesn't count");
    }

    // A system that is out of reach: what finished can't be settled, and comes again.
    let crew = Crew::start(RULE, &subject).await;
    crew.append(0..3, 3).await;
    let running = crew.worker("a").concurrency(3).drain(BUDGET).run(gated);
    let stopped_at = async {
        let began = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Began { .. }));
        crew.until("three handlers are called", |seen| began(seen) == 3).await;
        subject.refuse(true).await;
        subject.interrupt().await;
        crew.gate.stop();
        crew.handled(3).await;
        crew.stop.stop();
        Instant::now()
    };
    let began = crew.stopped(running, stopped_at).await;
    RULE.that(began.elapsed() < BUDGET + SLACK, "a stop takes no longer while the system is out of reach");
    subject.refuse(false).await;
    let crew = crew.again();
    let script = async {
        crew.handled(crew.pending_soon().await).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(note), script).await;
    crew.pending_is("what couldn't be settled is handled again", []).await;
}

impl<B: AckGroups> Crew<B> {
    /// How much is pending, once the system is in reach again.
    async fn pending_soon(&self) -> usize {
        let look = async {
            loop {
                if let Ok(depth) = self.group.depth().await {
                    return usize::try_from(depth.pending).unwrap_or(usize::MAX);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        self.rule.within("the system is in reach again", look).await
    }
}
