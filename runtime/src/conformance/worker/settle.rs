use std::future::pending;
use std::time::Duration;

use super::crew::{Crew, Hand, IDLE, Seen, Work, count, gated, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::Rule;
use crate::error::ErrorKind;
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-settle");
const KEYS: u64 = 6;

/// `worker-settle`: acknowledged after the handler succeeded and not before; what failed stays, its key pauses, and it is
/// told.
pub async fn worker_settle<S: Subject<Backend: AckGroups>>(subject: S) {
    after_success::<S>(&subject).await;
    failures_stay::<S>(&subject).await;
    a_failed_batch_stays::<S>(&subject).await;
}

async fn after_success<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    crew.append(0..3, KEYS).await;
    let script = async {
        crew.until("a handler is called", |seen| seen.iter().any(|seen| matches!(seen, Seen::Began { .. }))).await;
        // More than once, so that an acknowledgement that is on its way would have arrived.
        for _ in 0..10 {
            RULE.that(crew.pending().await.contains(&0), "it was acknowledged before the handler returned");
        }
        crew.gate.stop();
        crew.handled(3).await;
        crew.pending_is("what succeeded is acknowledged", []).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(gated), script).await;
}

async fn failures_stay<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    // 0 fails, 1 panics, 2 hangs and 3 doesn't decode; each has two of its key behind it.
    crew.append(0..3, KEYS).await;
    crew.append_riddle(subject, 3, KEYS).await;
    crew.append(4..3 * KEYS, KEYS).await;
    let worker = crew.worker("a").concurrency(8).deadline(Duration::from_millis(200)).run(
        async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            match doing.n {
                0 => return Err("the test's own error".into()),
                1 => panic!("the test's own panic"),
                2 => pending().await,
                _ => {}
            }
            doing.done();
            Ok(())
        },
    );
    let good = [4, 5, 10, 11, 16, 17];
    let bad: Vec<u64> = (0..3 * KEYS).filter(|n| n % KEYS < 4).collect();
    let script = async {
        crew.until("four failures are told", |seen| count(seen, |seen| matches!(seen, Seen::Unsettled(..))) == 4).await;
        crew.handled(good.len()).await;
        crew.pending_is("what failed and what is behind it stays", bad.clone()).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    crew.each_once("neighbours of failures", good);
    let mut told: Vec<_> = crew
        .journal
        .seen()
        .into_iter()
        .filter_map(|seen| match seen {
            Seen::Unsettled(position, attempt, kind) => Some((crew.number(position), attempt, kind)),
            _ => None,
        })
        .collect();
    told.sort_unstable_by_key(|(n, ..)| *n);
    let expected = [
        (0, 1, ErrorKind::Callback),
        (1, 1, ErrorKind::Panicked),
        (2, 1, ErrorKind::Timeout),
        (3, 1, ErrorKind::Malformed),
    ];
    RULE.same("what is told of the failures", told, expected);
    crew.pending_is("a stop settles no failure", bad).await;

    // The control: with a handler that succeeds, all that decodes is acknowledged.
    let crew = crew.again();
    let script = async {
        crew.pending_is("what decodes is acknowledged after all", [3, 9, 15]).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").claim_after(Duration::from_millis(60)).concurrency(8).run(note), script).await;
    crew.each_once("what failed before", [0, 1, 2, 6, 7, 8, 12, 13, 14]);
    for (n, attempt) in crew.journal.began() {
        RULE.that(n > 2 || attempt > 1, &format!("{n} was delivered before, but its attempt is {attempt}"));
    }
}

async fn a_failed_batch_stays<S: Subject<Backend: AckGroups>>(subject: &S) {
    for fails in [true, false] {
        let crew = Crew::start(RULE, subject).await;
        crew.append(0..20, KEYS).await;
        let worker = crew.worker("a").run_batches(50, move |deliveries: Vec<Delivery<Work>>, hand: Hand| async move {
            let numbers: Vec<u64> = deliveries.iter().map(|one| one.value().map_or(0, |work| work.n)).collect();
            hand.journal.write(Seen::Batch { numbers, over: true });
            if fails { Err("the test's own error".into()) } else { Ok(()) }
        });
        let script = async {
            if fails {
                let told = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Unsettled(..)));
                crew.until("each of a failed batch is told", |seen| told(seen) > 0).await;
                crew.pending_is("a failed batch stays whole", 0..20).await;
            } else {
                crew.until("a batch", |seen| count(seen, |seen| matches!(seen, Seen::Batch { .. })) > 0).await;
                crew.pending_is("the control: a batch is acknowledged as a whole", []).await;
            }
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
    }
}

/// `worker-settle`: a slow handler's entry, and what waits behind it, is kept from being claimed.
pub async fn worker_kept<S: Subject<Backend: AckGroups>>(subject: S) {
    let crew = Crew::start(RULE, &subject).await;
    crew.append(0..6, KEYS).await;
    // The control: what a consumer has that keeps nothing is claimed meanwhile.
    let ghost = RULE.unwrap("a consumer", crew.group.consumer("ghost"));
    let taken = RULE.ok("reading", ghost.read(2, Duration::ZERO)).await;
    RULE.same("the control's entries", taken.len(), 2);
    let slow = crew.worker("slow").run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        if doing.n == 2 {
            tokio::time::sleep(IDLE * 6).await;
        }
        doing.done();
        Ok(())
    });
    let quick = async {
        let began = |seen: &[Seen]| seen.iter().any(|seen| matches!(seen, Seen::Began { n: 2, .. }));
        crew.until("the slow handler begins", began).await;
        crew.pending_is("the slow one has read ahead", 0..6).await;
        // Several, since the slow one might claim its own, and be first.
        let [one, two, three, four] = ["one", "two", "three", "four"].map(|name| Box::pin(crew.worker(name).run(note)));
        let (one, two, three, four) = tokio::join!(one, two, three, four);
        one.and(two).and(three).and(four)
    };
    let script = async {
        crew.handled(6).await;
        crew.pending_is("everything is acknowledged", []).await;
        crew.stop.stop();
    };
    let (ended, ()) = crew
        .during(
            async {
                let (slow, quick) = tokio::join!(Box::pin(slow), Box::pin(quick));
                slow.and(quick)
            },
            script,
        )
        .await;
    RULE.unwrap("working", ended);
    crew.each_once("a slow handler", 0..6);
    for seen in crew.journal.seen() {
        if let Seen::Began { who, n, attempt } = seen {
            // Either may claim the ghost's.
            RULE.that(n < 2 || who == "slow", &format!("{n}, which the slow worker had, was handled by {who}"));
            RULE.same(&format!("the attempt of {n}"), attempt, if n < 2 { 2 } else { 1 });
        }
    }
}
