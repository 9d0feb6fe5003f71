use std::time::Duration;

use tokio::time::Instant;

use super::crew::{Crew, Hand, Seen, Work, count, gated, note};
use crate::capability::AckGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::{Network, Subject};
use crate::stream::{Delivery, StreamSettings};
use crate::topic::Ended;

const DAY: Duration = Duration::from_hours(24);
const DEADLINE: Duration = Duration::from_secs(5);

fn under_way(seen: &[Seen]) -> usize {
    count(seen, |seen| matches!(seen, Seen::Began { .. }))
}

/// `worker-dropped`: dropping a worker drops its handlers and leaves nothing running; what was acknowledged stays so, and
/// the rest is found again under its name.
pub async fn worker_dropped<S: Subject<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-dropped");
    let crew = Crew::start(RULE, &subject).await;
    crew.append(0..10, 10).await;
    let running = crew.worker("a").concurrency(3).run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        if doing.n > 1 {
            std::future::pending::<()>().await;
        }
        doing.done();
        Ok(())
    });
    let begun = async {
        crew.until("three handlers hang", |seen| under_way(seen) == 5).await;
        crew.pending_is("what was handled is acknowledged", 2..10).await;
    };
    tokio::select! {
        ended = Box::pin(running) => panic!("{}: it ended by itself: {ended:?}", RULE.0),
        () = begun => {}
    }
    // Dropped with the branch that lost.
    crew.until("its handlers are dropped", |seen| count(seen, |seen| matches!(seen, Seen::Dropped { .. })) == 3).await;
    RULE.eventually("nothing of it is left", async || crew.broker.stats().callbacks == 0).await;
    RULE.same("what is pending of it", crew.pending().await, (2..10).collect());

    // The control: under its name another goes on.
    let crew = crew.again();
    let script = async {
        crew.handled(8).await;
        crew.pending_is("everything is acknowledged", []).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").claim_after(DAY).run(note), script).await;
    crew.each_once("what the one that was dropped had", 2..10);
}

/// `worker-close`: closing the broker ends its workers within the deadline, whatever their handlers do and the system is.
pub async fn worker_close<S: Subject<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-close");
    for reach in ["in reach", "out of reach", "never reached"] {
        let crew = Crew::start(RULE, &subject).await;
        crew.append(0..10, 10).await;
        if reach == "never reached" {
            subject.refuse(true).await;
            subject.interrupt().await;
        }
        // One handler hangs, and one is quick.
        let running = crew.worker("a").concurrency(2).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 0 {
                std::future::pending::<()>().await;
            }
            doing.done();
            Ok(())
        });
        let script = async {
            let failed = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Failed(_)));
            if reach == "never reached" {
                crew.until("an attempt fails", |seen| failed(seen) > 0).await;
            } else {
                crew.handled(9).await;
            }
            if reach == "out of reach" {
                subject.refuse(true).await;
                subject.interrupt().await;
                crew.until("it notices", |seen| failed(seen) > 0).await;
            }
            let began = Instant::now();
            RULE.ok(&format!("closing, {reach}"), crew.broker.close(DEADLINE)).await;
            RULE.that(began.elapsed() < DEADLINE, "a close returns within its deadline");
        };
        let (ended, ()) = crew.during(running, script).await;
        RULE.same(&format!("the end, {reach}"), RULE.unwrap("working", ended), Ended::Closed);
        RULE.same("what runs after a close", crew.broker.stats().callbacks + crew.broker.stats().tasks, 0);
        subject.refuse(false).await;
        if reach == "in reach" {
            let other = Crew::beside(RULE, &subject, limits());
            let depth = RULE.ok("counting", other.group.depth()).await;
            RULE.that(depth.pending >= 1, "what was under way when the broker closed stays pending");
        }
    }
}

/// `worker-close`: a system that hangs holds up neither a close nor a stop.
pub async fn worker_hung<S: Network<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-close");
    for closes in [true, false] {
        let crew = Crew::with(RULE, &subject, StreamSettings::new(), limits().timeout(Duration::from_secs(2))).await;
        crew.append(0..4, 4).await;
        let running = crew.worker("a").concurrency(2).drain(Duration::from_millis(500)).run(gated);
        let script = async {
            crew.until("two handlers are called", |seen| under_way(seen) == 2).await;
            subject.silence(true).await;
            crew.gate.stop();
            let began = Instant::now();
            if closes {
                RULE.ok("closing while the system hangs", crew.broker.close(DEADLINE)).await;
            } else {
                crew.stop.stop();
            }
            began
        };
        let (ended, began) = crew.during(running, script).await;
        let expected = if closes { Ended::Closed } else { Ended::Stopped };
        RULE.same("the end while the system hangs", RULE.unwrap("working", ended), expected);
        RULE.that(began.elapsed() < DEADLINE, "a system that hangs holds it up");
        subject.silence(false).await;
    }
}
