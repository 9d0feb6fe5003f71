use std::time::Duration;

use super::crew::{Crew, Hand, Seen, Work, count, note};
use crate::capability::AckGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::{Network, Subject};
use crate::error::{Cause, ErrorKind};
use crate::stream::{Delivery, StreamSettings};

const RULE: Rule = Rule("worker-gap");

fn gaps(seen: &[Seen]) -> Vec<(Cause, u32)> {
    seen.iter()
        .filter_map(|seen| if let Seen::Gap(cause, attempts) = seen { Some((*cause, *attempts)) } else { None })
        .collect()
}

/// `worker-gap`: an interruption is told once, with its attempts; afterwards everything is handled and acknowledged, and
/// nothing is handled twice by the worker that lived through it.
pub async fn worker_gap<S: Subject<Backend: AckGroups>>(subject: S) {
    for partitions in [1, 3] {
        let crew = Crew::with(RULE, &subject, StreamSettings::new().partitions(partitions), limits()).await;
        // It reads all the time, so that every interruption is one of its reads.
        let worker = crew.worker("a").concurrency(3).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            tokio::time::sleep(Duration::from_millis(1)).await;
            doing.done();
            Ok(())
        });
        let script = async {
            crew.until("it is ready", |seen| seen.contains(&Seen::Ready)).await;
            let mut appended = 0;
            let mut told = 0;
            for interruption in ["none", "short", "none", "long", "short", "none"] {
                // Much of it waits here, is under way, or is being settled when the connection goes.
                crew.append(appended..appended + 60, 12).await;
                appended += 60;
                crew.handled(usize::try_from(appended - 40).expect("it is small")).await;
                match interruption {
                    "short" => subject.interrupt().await,
                    "long" => {
                        subject.refuse(true).await;
                        subject.interrupt().await;
                        let failed = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Failed(_)));
                        let before = failed(&crew.journal.seen());
                        crew.until("some attempts fail", |seen| failed(seen) >= before + 3).await;
                        subject.refuse(false).await;
                    }
                    _ => {}
                }
                if interruption != "none" {
                    told += 1;
                    crew.until("the gap is told", |seen| gaps(seen).len() == told).await;
                }
                crew.handled(usize::try_from(appended).expect("it is small")).await;
                crew.pending_is("everything is acknowledged", []).await;
                let gaps = gaps(&crew.journal.seen());
                RULE.same("gaps for the interruptions so far", gaps.len(), told);
                RULE.that(
                    gaps.iter().all(|(cause, _)| *cause == Cause::Disconnected),
                    "an interruption is a disconnect",
                );
            }
            crew.stop.stop();
            appended
        };
        let appended = crew.stopped(worker, script).await;
        crew.each_once("over interruptions", 0..appended);
        let seen = crew.journal.seen();
        let attempts: Vec<_> = gaps(&seen).into_iter().map(|(_, attempts)| attempts).collect();
        RULE.that(attempts[1] >= 3, &format!("the attempts of a long gap are told, not {}", attempts[1]));
        RULE.same("each gap goes to the callback", count(&seen, |seen| matches!(seen, Seen::Told(_))), attempts.len());
        RULE.that(
            count(&seen, |seen| matches!(seen, Seen::Interrupted(_))) >= attempts.len(),
            "interruptions are told",
        );
    }
    out_of_reach_at_first::<S>(&subject).await;
    failing_callbacks::<S>(&subject).await;
}

async fn out_of_reach_at_first<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    crew.append(0..5, 5).await;
    subject.refuse(true).await;
    let script = async {
        crew.until("an attempt fails", |seen| count(seen, |seen| matches!(seen, Seen::Failed(_))) > 1).await;
        RULE.same("nothing is told before it is ready", gaps(&crew.journal.seen()).len(), 0);
        subject.refuse(false).await;
        crew.handled(5).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(note), script).await;
    let seen = crew.journal.seen();
    let first = seen.iter().position(|seen| matches!(seen, Seen::Began { .. }));
    let told = seen.iter().position(|seen| matches!(seen, Seen::Told(Cause::Disconnected)));
    RULE.that(told.is_some() && told < first, "a failed start is a gap, told before anything is handled");
}

async fn failing_callbacks<S: Subject<Backend: AckGroups>>(subject: &S) {
    for (panics, kind) in [(false, ErrorKind::Callback), (true, ErrorKind::Panicked)] {
        let crew = Crew::start(RULE, subject).await;
        let worker = crew.worker("a").on_gap(move |_, _| async move {
            assert!(!panics, "the test's own panic");
            Err("the test's own error".into())
        });
        let script = async {
            crew.append([0], 1).await;
            crew.handled(1).await;
            // Again and again, since it may be just between two reads.
            let interrupting = async {
                loop {
                    subject.interrupt().await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                () = crew.until("the worker ends", |seen| matches!(seen.last(), Some(Seen::Ended(_)))) => {}
                () = interrupting => {}
            }
        };
        let (ended, ()) = crew.during(worker.run(note), script).await;
        RULE.same("a gap callback that fails", RULE.unwrap_err("a gap callback that fails", ended).kind(), kind);
    }
}

/// `worker-gap`: a system that falls silent is an interruption, and costs nothing either.
pub async fn worker_silence<S: Network<Backend: AckGroups>>(subject: S) {
    let limits = limits().timeout(Duration::from_millis(400)).heartbeat(Duration::from_millis(150));
    let crew = Crew::with(RULE, &subject, StreamSettings::new(), limits).await;
    let script = async {
        for (round, lost) in [(0, false), (1, true), (2, false)] {
            let from = round * 30;
            crew.append(from..from + 30, 10).await;
            crew.handled(usize::try_from(from + 10).expect("it is small")).await;
            let interrupted = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Interrupted(_)));
            let before = interrupted(&crew.journal.seen());
            if lost {
                subject.lose_replies(true).await;
            } else {
                subject.silence(true).await;
            }
            crew.until("it notices", |seen| interrupted(seen) > before).await;
            if lost {
                subject.lose_replies(false).await;
            } else {
                subject.silence(false).await;
            }
            crew.until("the gap is told", |seen| gaps(seen).len() as u64 > round).await;
            crew.handled(usize::try_from(from + 30).expect("it is small")).await;
            RULE.eventually("everything is acknowledged", async || {
                crew.group.depth().await.is_ok_and(|depth| depth.pending == 0)
            })
            .await;
        }
        crew.stop.stop();
    };
    let worker =
        crew.worker("a").claim_after(Duration::from_mins(1)).run(async |delivery: Delivery<Work>, hand: Hand| {
            let doing = hand.begin(&delivery);
            tokio::time::sleep(Duration::from_millis(2)).await;
            doing.done();
            Ok(())
        });
    crew.stopped(worker, script).await;
    crew.each_once("over silence and lost replies", 0..90);
    let causes: Vec<_> = gaps(&crew.journal.seen()).into_iter().map(|(cause, _)| cause).collect();
    RULE.that(causes.iter().all(|cause| *cause == Cause::Disconnected), "silence is a disconnect");
}
