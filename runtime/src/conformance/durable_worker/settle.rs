use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::crew::{LATE, Takers, WAIT, began, wide};
use crate::broker::lock;
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::worker::crew::{Hand, Seen, Work, count, gated, note};
use crate::error::ErrorKind;
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-settle");
const KEYS: u64 = 6;

/// What is told of failures, by number: the attempt and why.
fn told<B: Cursors>(crew: &Takers<B>) -> Vec<(u64, u32, ErrorKind)> {
    let failed = |seen: Seen| match seen {
        Seen::Retrying { position, attempt, kind, .. } | Seen::Unsettled(position, attempt, kind) => {
            Some((crew.number(position), attempt, kind))
        }
        _ => None,
    };
    let mut told: Vec<_> = crew.journal.seen().into_iter().filter_map(failed).collect();
    told.sort_unstable_by_key(|(n, attempt, _)| (*n, *attempt));
    told
}

/// `worker-settle`: acknowledged after the handler succeeded and not before; what failed comes again and is counted, and
/// what doesn't decode is kept; both are told.
pub async fn durable_worker_settle<S: Streams<Backend: Cursors>>(subject: S) {
    after_success::<S>(&subject).await;
    failures_come_again::<S>(&subject).await;
    a_failed_batch_comes_again::<S>(&subject).await;
    poison_is_kept::<S>(&subject).await;
}

async fn after_success<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide().ack_wait(WAIT)).await;
    crew.append(0..3, KEYS).await;
    let script = async {
        crew.until("a handler is called", |seen| began(seen) > 0).await;
        crew.leaves("all are handed out", (0, 3)).await;
        // More than once, so that a settlement that is on its way would have arrived.
        for _ in 0..10 {
            RULE.same("what is settled before the handler returned", crew.left().await, (0, 3));
        }
        crew.gate.stop();
        crew.handled(3).await;
        crew.leaves("what succeeded is acknowledged", (0, 0)).await;
        // What isn't recorded comes again within this time.
        tokio::time::sleep(WAIT * 2).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").run(gated), script).await;
    RULE.same("what succeeded is handled once", crew.journal.began(), [(0, 1), (1, 1), (2, 1)]);
    RULE.same("the control: nothing is told of what succeeded", told(&crew), []);
}

async fn failures_come_again<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide()).await;
    // 0 fails, 1 panics and 2 hangs, each at first; each has two of its key behind it.
    crew.append(0..3 * KEYS, KEYS).await;
    let worker = crew.taker("a").concurrency(8).deadline(Duration::from_millis(200));
    let running = worker.run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        match doing.n {
            _ if delivery.attempt() > 1 => {}
            0 => return Err("the test's own error".into()),
            1 => panic!("the test's own panic"),
            2 => pending().await,
            _ => {}
        }
        doing.done();
        Ok(())
    });
    let script = async {
        crew.handled(18).await;
        crew.leaves("what failed first is acknowledged in the end", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    crew.each_once("what failed first and its neighbours", 0..3 * KEYS);
    crew.in_order(KEYS);
    let expected = [(0, 1, ErrorKind::Callback), (1, 1, ErrorKind::Panicked), (2, 1, ErrorKind::Timeout)];
    RULE.same("what is told of the failures", told(&crew), expected);
    let again: Vec<_> = crew.journal.began().into_iter().filter(|(_, attempt)| *attempt != 1).collect();
    RULE.same("attempts beyond the first", again.len(), 3);
}

async fn a_failed_batch_comes_again<S: Streams<Backend: Cursors>>(subject: &S) {
    for fails in [true, false] {
        let crew = Takers::taking(RULE, subject, wide()).await;
        crew.append(0..KEYS, KEYS).await;
        let worker = crew.taker("a").run_batches(50, move |deliveries: Vec<Delivery<Work>>, hand: Hand| async move {
            if fails && deliveries.iter().any(|one| one.attempt() == 1) {
                return Err("the test's own error".into());
            }
            let numbers: Vec<u64> = deliveries.iter().map(|one| one.value().map_or(0, |work| work.n)).collect();
            hand.journal.write(Seen::Batch { numbers, over: true });
            Ok(())
        });
        let script = async {
            crew.leaves("a batch is acknowledged as a whole", (0, 0)).await;
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
        let seen = crew.journal.seen();
        let batches =
            seen.iter().filter_map(|seen| if let Seen::Batch { numbers, .. } = seen { Some(numbers) } else { None });
        let mut numbers: Vec<u64> = batches.flatten().copied().collect();
        numbers.sort_unstable();
        RULE.same("each of the batches succeeds once", numbers, (0..KEYS).collect::<Vec<_>>());
        let expected: Vec<_> = (0..KEYS).filter(|_| fails).map(|n| (n, 1, ErrorKind::Callback)).collect();
        RULE.same("each of a failed batch is told", told(&crew), expected);
    }
}

async fn poison_is_kept<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide().ack_wait(WAIT)).await;
    // 3 and 6 are behind it, of its key.
    crew.append_riddle(subject, 0, 3).await;
    crew.append(1..9, 3).await;
    let unsettled = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Unsettled(..)));
    let script = async {
        crew.until("it is told", |seen| unsettled(seen) == 1).await;
        crew.handled(6).await;
        crew.leaves("it is kept with what is behind it", (0, 3)).await;
        // What isn't kept comes again within this time.
        tokio::time::sleep(WAIT * 2).await;
        RULE.same("it is kept for as long as the worker runs", crew.left().await, (0, 3));
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").concurrency(2).run(note), script).await;
    crew.each_once("what decodes", [1, 2, 4, 5, 7, 8]);
    RULE.same("what is told of it", told(&crew), [(0, 1, ErrorKind::Malformed)]);

    // The control: what a stop gave back comes to the next one, and counts.
    let crew = crew.again();
    let script = async {
        crew.until("it is told again", |seen| unsettled(seen) == 1).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("b").run(note), script).await;
    // What was behind it may come before it.
    RULE.that(crew.journal.began().iter().all(|(_, attempt)| *attempt == 2), "what a stop gave back counts");
    RULE.same("what is told of it next", told(&crew), [(0, 2, ErrorKind::Malformed)]);
}

/// `worker-retry`: what failed comes again after the delay that was told, which doubles from the worker's first up to its
/// most, and counts each attempt.
pub async fn durable_worker_retry<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-retry");
    const ATTEMPTS: u32 = 5;
    for (first, most) in [(300, 900), (10, 10)] {
        let (first, most) = (Duration::from_millis(first), Duration::from_millis(most));
        let crew = Takers::taking(RULE, &subject, wide()).await;
        crew.append([0], 1).await;
        let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let noted = times.clone();
        let running = crew.taker("a").retry_after(first, most).run(move |delivery: Delivery<Work>, hand: Hand| {
            lock(&noted).push(Instant::now());
            async move {
                let doing = hand.begin(&delivery);
                if delivery.attempt() < ATTEMPTS {
                    return Err("the test's own error".into());
                }
                doing.done();
                Ok(())
            }
        });
        let script = async {
            crew.handled(1).await;
            crew.leaves("it is acknowledged in the end", (0, 0)).await;
            crew.stop.stop();
        };
        crew.stopped(running, script).await;
        RULE.same("its attempts", crew.journal.began(), (1..=ATTEMPTS).map(|attempt| (0, attempt)).collect::<Vec<_>>());
        let told: Vec<_> = crew
            .journal
            .seen()
            .into_iter()
            .filter_map(
                |seen| if let Seen::Retrying { attempt, after, .. } = seen { Some((attempt, after)) } else { None },
            )
            .collect();
        RULE.same("failures that are told", told.len(), 4);
        let times = lock(&times);
        for ((attempt, after), passed) in told.into_iter().zip(times.windows(2)) {
            let delay = most.min(first * 2_u32.pow(attempt - 1));
            RULE.that(
                (delay / 2..=delay).contains(&after),
                &format!("the delay after attempt {attempt} is {after:?}, not half to all of {delay:?}"),
            );
            let passed = passed[1] - passed[0];
            // The system's clock may tick a little sooner.
            let early = passed + Duration::from_millis(20) < after;
            RULE.that(!early && passed < after + LATE, &format!("it came again after {passed:?}, not {after:?}"));
        }
    }
}

/// `worker-settle`: a slow handler's delivery, and what waits behind it, is kept from coming again.
pub async fn durable_worker_kept<S: Streams<Backend: Cursors>>(subject: S) {
    for settings in [wide().ack_wait(WAIT), wide().backoff([WAIT, WAIT * 2])] {
        let crew = Takers::taking(RULE, &subject, settings).await;
        crew.append(0..6, KEYS).await;
        // The control: what somebody has that keeps nothing comes again meanwhile.
        let ghost = crew.handle().await;
        let taken = crew.takes("the control's", &ghost, 2).await;
        RULE.same("the control's", taken.iter().map(|one| one.n).collect::<Vec<_>>(), [0, 1]);
        drop(ghost);
        let slow = crew.taker("slow").run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            if doing.n == 2 {
                tokio::time::sleep(WAIT * 3).await;
            }
            doing.done();
            Ok(())
        });
        let quick = async {
            crew.until("the slow handler begins", |seen| began(seen) > 0).await;
            crew.leaves("the slow one has taken the rest ahead", (0, 6)).await;
            // Several, since the slow one might get its own again, and be first.
            let [one, two, three] = ["one", "two", "three"].map(|name| Box::pin(crew.taker(name).run(note)));
            let (one, two, three) = tokio::join!(one, two, three);
            one.and(two).and(three)
        };
        let script = async {
            crew.handled(6).await;
            crew.leaves("everything is acknowledged", (0, 0)).await;
            crew.stop.stop();
        };
        let working = async {
            let (slow, quick) = tokio::join!(Box::pin(slow), Box::pin(quick));
            slow.and(quick)
        };
        crew.stopped(working, script).await;
        crew.each_once("a slow handler", 0..6);
        for seen in crew.journal.seen() {
            if let Seen::Began { who, n, attempt } = seen {
                // Anyone may get the ghost's.
                RULE.that(n < 2 || who == "slow", &format!("{n}, which the slow worker had, was handled by {who}"));
                RULE.same(&format!("the attempt of {n}"), attempt, if n < 2 { 2 } else { 1 });
            }
        }
    }
}
