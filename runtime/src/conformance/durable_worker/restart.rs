use tokio::time::Instant;

use super::crew::{LATE, Takers, WAIT, partitions, wide};
use crate::capability::{Cursors, Verdict};
use crate::conformance::Streams;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::note;

const RULE: Rule = Rule("worker-restart");

/// `worker-restart`: what a dead worker had comes to the next one after its ack wait, once and counted; what it had settled
/// doesn't.
pub async fn durable_worker_restart<S: Streams<Backend: Cursors>>(subject: S) {
    for partitions in partitions::<S>() {
        for had in [3, 100] {
            for settles in [false, true] {
                let settings = wide().ack_wait(WAIT);
                let crew = Takers::taking_with(RULE, &subject, partitions, settings, limits()).await;
                crew.append(0..had + 4, had + 4).await;
                let dead = crew.handle().await;
                let began = Instant::now();
                let taken =
                    crew.takes("what the dead one had", &dead, usize::try_from(had).expect("it is small")).await;
                let own: Vec<u64> = taken.iter().map(|one| one.n).collect();
                if settles {
                    crew.settles("what the dead one had settled", &dead, taken, &Verdict::Ack).await;
                }
                drop(dead);
                let new = (0..had + 4).filter(|n| !own.contains(n)).map(|n| (n, 1));
                let mut expected: Vec<(u64, u32)> = new.collect();
                if !settles {
                    expected.extend(own.iter().map(|n| (*n, 2)));
                }
                expected.sort_unstable();
                let script = async {
                    crew.handled(expected.len()).await;
                    crew.leaves("everything is acknowledged", (0, 0)).await;
                    crew.stop.stop();
                };
                crew.stopped(crew.taker("b").concurrency(4).run(note), script).await;
                let mut handled = crew.journal.began();
                handled.sort_unstable();
                RULE.same("what comes to the next one, and as which attempt", handled, expected);
                let took = began.elapsed();
                if settles {
                    RULE.that(took < WAIT + LATE, "what is new waits for nobody");
                } else {
                    RULE.that(took >= WAIT && took < WAIT + LATE, &format!("it came after {took:?}, not {WAIT:?}"));
                }
            }
        }
    }
}
