use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::sleep;

use super::crew::Sharers;
use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, note};
use crate::error::HandlerError;
use crate::stream::Delivery;
use crate::topic::Stop;

const RULE: Rule = Rule("worker-rebalance");

/// `worker-rebalance`: a partition that moves to another worker is handed over when what is under way of it is done and
/// committed, so that nothing is handled twice; where the time isn't enough it moves all the same.
pub async fn commit_worker_moves<S: Subject<Backend: CommitGroups>>(subject: S) {
    const COUNT: u64 = 80;
    for enough in [true, false] {
        let crew = Sharers::sharing(RULE, &subject, 4).await;
        crew.append(0..COUNT, COUNT).await;
        let parts = crew.by_partition();
        RULE.that(parts.len() == 4 && parts.values().all(|own| own.len() > 4), "every partition has some");
        let drain = if enough { Duration::from_mins(1) } else { Duration::from_millis(300) };
        // Its first handlers wait, one of each partition at least.
        let first = crew.sharer("a").concurrency(usize::try_from(COUNT).expect("it is small")).drain(drain).run(held);
        let second = Sharers::sharing_beside(RULE, &subject, limits());
        let second_worker = second.sharer("b").run(note);
        let script = async {
            crew.until("everything is under way", |seen| super::crew::began(seen) as u64 == COUNT).await;
            let other = async {
                let script = async {
                    let got = |seen: &[Seen]| seen.iter().any(|seen| matches!(seen, Seen::Assigned(_)));
                    if enough {
                        sleep(Duration::from_millis(500)).await;
                        RULE.that(!got(&second.journal.seen()), "nothing moves while its handlers are under way");
                        crew.gate.stop();
                    }
                    second.until("its share", got).await;
                    if !enough {
                        second.handled(1).await;
                        crew.gate.stop();
                    }
                    crew.leaves("all is handled", 0).await;
                    crew.append(COUNT..2 * COUNT, COUNT).await;
                    crew.leaves("all is handled", 0).await;
                    second.stop.stop();
                };
                second.stopped(second_worker, script).await;
            };
            other.await;
            crew.append(2 * COUNT..2 * COUNT + 20, COUNT).await;
            crew.leaves("the first takes over again", 0).await;
            crew.stop.stop();
        };
        Box::pin(crew.stopped(first, script)).await;
        let mut times: BTreeMap<u64, u32> = BTreeMap::new();
        for n in crew.journal.done().into_iter().chain(second.journal.done()) {
            *times.entry(n).or_default() += 1;
        }
        RULE.same("each is handled", times.keys().copied().collect::<BTreeSet<_>>(), (0..2 * COUNT + 20).collect());
        let twice = times.values().filter(|times| **times > 1).count();
        RULE.that((twice == 0) == enough, &format!("{twice} were handled twice where the time is enough: {enough}"));
        RULE.that(!second.journal.done().is_empty(), "the second had its share");
        let revoked = |seen: &[Seen]| seen.iter().any(|seen| matches!(seen, Seen::Revoked(_)));
        RULE.that(revoked(&crew.journal.seen()), "what has moved is told");
    }
}

async fn held(delivery: Delivery<Work>, hand: Hand) -> Result<(), HandlerError> {
    let doing = hand.begin(&delivery);
    hand.gate.stopped().await;
    doing.done();
    Ok(())
}

/// `worker-rebalance`: workers that come and go under load lose nothing, keep the order of a key, and, with the time that
/// they need, handle nothing twice.
pub async fn commit_worker_churn<S: Subject<Backend: CommitGroups>>(subject: S) {
    const COUNT: u64 = 400;
    const KEYS: u64 = 40;
    let crew = Sharers::sharing(RULE, &subject, 8).await;
    let others: Vec<_> = (0..2).map(|_| Sharers::sharing_beside(RULE, &subject, limits())).collect();
    let handler = async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        sleep(Duration::from_millis(3)).await;
        doing.done();
        Ok(())
    };
    // All of them write into one journal, so that their order shows.
    let worker = |who, group: &crate::CommitGroup<Work, S::Backend>, stop: &Stop| {
        let worker = group.worker().concurrency(4).read_ahead(20).with(crew.hand(who)).until(stop);
        worker.run(handler)
    };
    let script = async {
        let producing = async {
            for n in (0..COUNT).step_by(20) {
                crew.append(n..n + 20, KEYS).await;
                sleep(Duration::from_millis(20)).await;
            }
        };
        let coming_and_going = others.iter().zip([5_u64, 17]).map(|(other, pace)| {
            let worker = &worker;
            async move {
                for round in 0..4 {
                    let stop = Stop::new();
                    let stopping = async {
                        sleep(Duration::from_millis(30 * (round + 1) + pace)).await;
                        stop.stop();
                    };
                    let (ended, ()) = tokio::join!(worker("b", &other.group, &stop), stopping);
                    RULE.unwrap("one that comes and goes", ended);
                    sleep(Duration::from_millis(pace)).await;
                }
            }
        });
        let all = crate::conformance::streams::steps::all(coming_and_going);
        let ((), _) = tokio::join!(producing, all);
        crew.leaves("all is committed", 0).await;
        crew.stop.stop();
    };
    crew.stopped(worker("a", &crew.group, &crew.stop), script).await;
    crew.each_once("with the time that they need", 0..COUNT);
    crew.in_order(KEYS);
}
