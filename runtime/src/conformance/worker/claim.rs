use std::collections::BTreeSet;
use std::time::Duration;

use super::crew::{Crew, IDLE, Seen, count, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::stream::{Delivery, Position, Start, StreamSettings};

const DAY: Duration = Duration::from_hours(24);

/// `worker-claim`: what a dead consumer left is claimed once it is idle, all of it, counted as a redelivery; what isn't idle
/// is left alone.
pub async fn worker_claim<S: Subject<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-claim");
    const STRANDED: u64 = 150;
    for partitions in [1, 3] {
        let settings = StreamSettings::new().partitions(partitions);
        let crew = Crew::with(RULE, &subject, settings, limits()).await;
        crew.append(0..STRANDED, 30).await;
        let dead = RULE.unwrap("a consumer", crew.group.consumer("dead"));
        let mut taken = BTreeSet::new();
        while (taken.len() as u64) < STRANDED {
            let read = RULE.ok("reading", dead.read(200, Duration::ZERO)).await;
            taken.extend(read.iter().map(|delivery| crew.number(delivery.position())));
        }
        crew.append(STRANDED..STRANDED + 5, 30).await;
        // The control: nothing is claimed before it has been idle so long.
        let script = async {
            crew.handled(5).await;
            crew.append(STRANDED + 5..STRANDED + 10, 30).await;
            crew.handled(10).await;
            crew.stop.stop();
        };
        crew.stopped(crew.worker("patient").claim_after(DAY).run(note), script).await;
        crew.each_once("the control: a patient worker", STRANDED..STRANDED + 10);

        let crew = crew.again();
        let script = async {
            crew.handled(usize::try_from(STRANDED).expect("it is small")).await;
            crew.pending_is("everything is acknowledged", []).await;
            crew.stop.stop();
        };
        let worker = crew.worker("heir").claim_after(Duration::from_millis(300)).concurrency(2).read_ahead(16);
        crew.stopped(worker.run(note), script).await;
        crew.each_once("what was stranded", 0..STRANDED);
        for (n, attempt) in crew.journal.began() {
            RULE.same(&format!("the attempt of {n}, which was claimed"), attempt, 2);
        }
    }

    // Who keeps its entries, as a worker does, is left alone by one with the same setting.
    let crew = Crew::start(RULE, &subject).await;
    crew.append(0..4, 4).await;
    let alive = RULE.unwrap("a consumer", crew.group.consumer("alive"));
    let held = RULE.ok("reading", alive.read(2, Duration::ZERO)).await;
    let positions: Vec<_> = held.iter().map(crate::Delivery::position).collect();
    let script = async {
        for _ in 0..9 {
            let kept = RULE.ok("keeping", alive.extend(positions.iter().copied())).await;
            RULE.same("what is kept", kept.len(), 2);
            tokio::time::sleep(IDLE / 4).await;
        }
        RULE.same("what isn't kept by anyone is handled", crew.journal.done(), [2, 3]);
        crew.handled(4).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(note), script).await;
    crew.each_once("once it is kept no longer it is claimed", 0..4);
}

/// `worker-claim`: entries that were removed from the stream while they were pending are told as lost.
pub async fn worker_lost<S: Subject<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-claim");
    for max_len in [Some(100), None] {
        let crew = Crew::keeping(RULE, &subject, max_len).await;
        crew.append(0..10, 10).await;
        for name in ["a", "dead"] {
            let consumer = RULE.unwrap("a consumer", crew.group.consumer(name));
            RULE.ok("reading", consumer.read(5, Duration::ZERO)).await;
        }
        // Redis trims whole nodes of its tree, of 100 records by default.
        crew.append(10..510, 10).await;
        let lost =
            |seen: &[Seen]| seen.iter().map(|seen| if let Seen::Lost(lost) = seen { *lost } else { 0 }).sum::<usize>();
        let expected = if max_len.is_some() { 10 } else { 0 };
        let script = async {
            crew.until("what is gone is told", |seen| lost(seen) == expected).await;
            if max_len.is_none() {
                crew.handled(510).await;
            }
            // Whatever is left is handled, so that nothing that is gone is waited for.
            crew.pending_is("nothing is pending any more", []).await;
            crew.stop.stop();
        };
        crew.stopped(crew.worker("a").claim_after(Duration::from_millis(100)).run(note), script).await;
        let handled = crew.journal.done().len();
        RULE.that(
            (max_len.is_none() && handled == 510) || (max_len.is_some() && handled < 510),
            &format!("{handled} were handled of a stream that keeps {max_len:?}"),
        );
        let seen = crew.journal.seen();
        RULE.that(count(&seen, |seen| matches!(seen, Seen::Gap(..))) == 0, "what is trimmed is no gap");
    }
}

/// `read-after`: a worker is told what was removed before its group had it, once, before it handles what is left.
pub async fn worker_trimmed<S: Subject<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("read-after");
    for max_len in [Some(100), None] {
        let crew = Crew::keeping(RULE, &subject, max_len).await;
        crew.append(0..510, 10).await;
        let left = RULE.ok("reading", crew.stream.read(Start::Earliest, 510, Duration::ZERO)).await;
        let left: Vec<Position> = left.iter().map(Delivery::position).collect();
        let script = async {
            crew.handled(left.len()).await;
            crew.pending_is("nothing is pending any more", []).await;
            crew.stop.stop();
        };
        crew.stopped(crew.worker("a").run(note), script).await;
        crew.each_once("what is left", left.iter().map(|position| crew.number(*position)));
        let seen = crew.journal.seen();
        let told: Vec<_> = seen.iter().filter(|seen| matches!(seen, Seen::Trimmed(_))).collect();
        let expected = Seen::Trimmed(left[0]);
        RULE.same("what is told", told, max_len.map(|_| &expected).into_iter().collect::<Vec<_>>());
        let place = |of: &dyn Fn(&Seen) -> bool| seen.iter().position(of);
        let (told, began) = (place(&|seen| *seen == expected), place(&|seen| matches!(seen, Seen::Began { .. })));
        RULE.that(told < began, "it is told before anything is handled");
    }
}
