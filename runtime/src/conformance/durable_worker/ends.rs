use std::time::Duration;

use tokio::time::Instant;

use super::crew::{Takers, WAIT, began, wide};
use crate::capability::Cursors;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, gated, note};
use crate::conformance::{Network, Streams};
use crate::stream::Delivery;
use crate::topic::Ended;

const DEADLINE: Duration = Duration::from_secs(5);

/// `worker-dropped`: dropping a worker drops its handlers and leaves nothing running; what was acknowledged stays so, and
/// the rest comes again after its ack wait.
pub async fn durable_worker_dropped<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-dropped");
    let crew = Takers::taking(RULE, &subject, wide().ack_wait(WAIT)).await;
    crew.append(0..10, 10).await;
    let running = crew.taker("a").concurrency(3).run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        if doing.n > 1 {
            std::future::pending::<()>().await;
        }
        doing.done();
        Ok(())
    });
    let begun = async {
        crew.until("three handlers hang", |seen| began(seen) == 5).await;
        crew.leaves("what was handled is acknowledged", (0, 8)).await;
    };
    tokio::select! {
        ended = Box::pin(running) => panic!("{}: it ended by itself: {ended:?}", RULE.0),
        () = begun => {}
    }
    // Dropped with the branch that lost.
    crew.until("its handlers are dropped", |seen| count(seen, |seen| matches!(seen, Seen::Dropped { .. })) == 3).await;
    RULE.eventually("nothing of it is left", async || crew.broker.stats().callbacks == 0).await;
    RULE.same("what isn't settled of it", crew.left().await, (0, 8));

    // The control: another goes on.
    let crew = crew.again();
    let script = async {
        crew.handled(8).await;
        crew.leaves("everything is acknowledged", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("b").run(note), script).await;
    crew.each_once("what the one that was dropped had", 2..10);
    RULE.that(crew.journal.began().iter().all(|(_, attempt)| *attempt == 2), "it counts one attempt more");
}

/// `worker-close`: closing the broker ends its workers within the deadline, whatever their handlers do and the system is.
pub async fn durable_worker_close<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-close");
    for reach in ["in reach", "out of reach", "never reached"] {
        let crew = Takers::taking(RULE, &subject, wide()).await;
        crew.append(0..10, 10).await;
        if reach == "never reached" {
            subject.refuse(true).await;
            subject.interrupt().await;
        }
        // One handler hangs, and one is quick.
        let running = crew.taker("a").concurrency(2).run(async |delivery: Delivery<Work>, hand: Hand| {
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
            let other = Takers::taking_beside(RULE, &subject, limits());
            let (waiting, in_flight) = other.left().await;
            RULE.that(waiting == 0 && in_flight >= 1, "what was under way when the broker closed stays unsettled");
        }
    }
}

/// `worker-close`: a system that hangs holds up neither a close nor a stop.
pub async fn durable_worker_hung<S: Network<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-close");
    for closes in [true, false] {
        let limits = limits().timeout(Duration::from_secs(2));
        let crew = Takers::taking_with(RULE, &subject, 1, wide(), limits).await;
        crew.append(0..4, 4).await;
        let running = crew.taker("a").concurrency(2).drain(Duration::from_millis(500)).run(gated);
        let script = async {
            crew.until("two handlers are called", |seen| began(seen) == 2).await;
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
