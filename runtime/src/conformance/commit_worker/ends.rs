use std::time::Duration;

use super::crew::{Sharers, began};
use crate::capability::CommitGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::steps::give_up;
use crate::conformance::worker::crew::{Hand, Seen, Work, count, gated, note};
use crate::conformance::{PATIENCE, Streams, Subject};
use crate::error::{Cause, ErrorKind};
use crate::stream::{Delivery, Start, StreamSettings};
use crate::topic::Ended;

/// `worker-gap`: an interruption is told, once, and over once the system is in reach again: until then every attempt fails,
/// and a worker isn't ready before it was told its partitions. Before it goes on the gap callback is awaited. Nothing that
/// is committed comes again.
pub async fn commit_worker_gap<S: Subject<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-gap");
    let owner = Sharers::sharing(RULE, &subject, 2).await;
    let crew = Sharers::sharing_beside(RULE, &subject, limits().timeout(Duration::from_millis(500)));
    let gaps = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Gap(Cause::Disconnected, _)));
    let told = |seen: &[Seen]| {
        let interrupted = count(seen, |seen| matches!(seen, Seen::Interrupted(_)));
        [count(seen, |seen| *seen == Seen::Ready), interrupted, gaps(seen)]
    };
    let script = async {
        owner.append(0..20, 20).await;
        crew.handled(20).await;
        owner.leaves("all is committed", 0).await;
        RULE.same("the control: no gap without an interruption", gaps(&crew.journal.seen()), 0);
        for round in 1..=2 {
            owner.append([round * 20], 20).await;
            let busy = usize::try_from(round * 20 + 1).expect("it is small");
            // One is under way when the system goes out of reach, and can't be committed.
            crew.until("one is under way", |seen| began(seen) == busy).await;
            subject.refuse(true).await;
            subject.interrupt().await;
            crew.until("the interruption is told", |seen| {
                count(seen, |seen| matches!(seen, Seen::Interrupted(_))) as u64 >= round
            })
            .await;
            crew.until("attempts to go on fail", |seen| attempts(seen).last().is_some_and(|failed| *failed > 2)).await;
            // Long enough for what mustn't be told.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let before = usize::try_from(round).expect("it is small");
            let news = "how often it was ready, interrupted and told a gap by the time that the system is out of reach";
            RULE.same(news, told(&crew.journal.seen()), [before, before, before - 1]);
            subject.refuse(false).await;
            crew.until("the gap is told", |seen| gaps(seen) as u64 >= round).await;
            RULE.eventually("in reach again", async || owner.group.lag().await.is_ok()).await;
            owner.append(round * 20 + 1..round * 20 + 20, 20).await;
            crew.handled(usize::try_from(round * 20 + 20).expect("it is small")).await;
            owner.leaves("all is committed", 0).await;
        }
        crew.stop.stop();
    };
    let handler = async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        if doing.n > 0 && doing.n.is_multiple_of(20) {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        doing.done();
        Ok(())
    };
    crew.stopped(crew.sharer("a").run(handler), script).await;
    crew.each_once("over interruptions", 0..60);
    let seen = crew.journal.seen();
    RULE.same("how often it was ready, interrupted and told a gap", told(&seen), [3, 2, 2]);
    let called = count(&seen, |seen| *seen == Seen::Told(Cause::Disconnected));
    RULE.same("the callback is called for each gap", called, 2);
    let first = |wanted: fn(&Seen) -> bool| seen.iter().position(wanted).expect("it was told");
    let assigned = first(|seen| matches!(seen, Seen::Assigned(_)));
    RULE.that(assigned < first(|seen| *seen == Seen::Ready), "it is told its partitions before it is ready");
    let in_gaps = seen.iter().filter_map(|seen| if let Seen::Gap(_, attempts) = seen { Some(*attempts) } else { None });
    RULE.same("each failed attempt is told", in_gaps.collect::<Vec<_>>(), attempts(&seen));
    let kinds = seen.iter().filter_map(|seen| match seen {
        Seen::Interrupted(kind) | Seen::Failed(kind) => Some(*kind),
        _ => None,
    });
    for kind in kinds {
        RULE.that(
            matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Refused),
            &format!("out of reach is told as such, not as {kind:?}"),
        );
    }
}

/// How many attempts to go on failed after each interruption.
fn attempts(seen: &[Seen]) -> Vec<u32> {
    let mut attempts = Vec::new();
    for seen in seen {
        match seen {
            Seen::Interrupted(_) => attempts.push(0),
            Seen::Failed(_) => attempts.last_mut().into_iter().for_each(|failed| *failed += 1),
            _ => {}
        }
    }
    attempts
}

/// `commit-group-lost`: a stream that vanishes under a worker is told as a gap; what is appended to the next one comes, all
/// of it and once. A group that was never there is an error.
pub async fn commit_worker_stream_lost<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-group-lost");
    let gaps = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Gap(Cause::Vanished, _)));
    // The worker's own broker has ensured it, or another one does.
    for own in [true, false] {
        if own && !S::RENEWS {
            continue;
        }
        let first = Sharers::sharing(RULE, &subject, 1).await;
        let crew = if own { first } else { Sharers::sharing_beside(RULE, &subject, limits()) };
        let other = Sharers::sharing_beside(RULE, &subject, limits());
        let absent = Seen::Failed(ErrorKind::Absent);
        let script = async {
            crew.append(0..5, 5).await;
            crew.handled(5).await;
            crew.leaves("everything is committed", 0).await;
            RULE.that(RULE.ok("removing", other.stream.delete()).await, "the stream was there");
            if !own {
                crew.until("it waits for the stream", |seen| seen.contains(&absent)).await;
                RULE.same("no gap before it goes on", gaps(&crew.journal.seen()), 0);
            }
            RULE.eventually("ensuring", async || other.stream.ensure(StreamSettings::new()).await.is_ok()).await;
            // Appended before the group is there, or after.
            crew.append(5..15, 5).await;
            if !own {
                RULE.ok("recording", other.group.ensure(Start::Earliest)).await;
            }
            crew.until("the gap is told", |seen| gaps(seen) == 1).await;
            crew.append(15..20, 5).await;
            crew.handled(20).await;
            crew.leaves("everything is committed", 0).await;
            crew.stop.stop();
        };
        crew.stopped(crew.sharer("a").run(note), script).await;
        crew.each_once("over the loss of the stream", 0..20);
        RULE.same("gaps of one loss", gaps(&crew.journal.seen()), 1);
    }
    let crew = Sharers::sharing(RULE, &subject, 1).await;
    let nobody = RULE.unwrap("looking up", crew.stream.commit_group("nobody"));
    let failed = RULE.fails("a group that was never there", nobody.worker().run(async |_, ()| Ok(()))).await;
    RULE.same("a group that was never there", failed.kind(), ErrorKind::Absent);
    // The control: where this broker has ensured it, it is waited for and made.
    let other = Sharers::sharing_beside(RULE, &subject, limits());
    RULE.ok("removing", other.group.delete()).await;
    crew.append(0..3, 3).await;
    let script = async {
        crew.handled(3).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").run(note), script).await;
    crew.each_once("a group that this broker has ensured", 0..3);
}

/// `worker-close`: closing the broker ends a worker, and dropping it does, too: its handlers are dropped, nothing of
/// them is committed, and another worker takes over.
pub async fn commit_worker_close<S: Subject<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("worker-close");
    for closes in [true, false] {
        let other = Sharers::sharing(RULE, &subject, 2).await;
        let crew = Sharers::sharing_beside(RULE, &subject, limits());
        other.append(0..6, 6).await;
        let worker = crew.sharer("a").concurrency(6).run(gated);
        let six = crew.until("six handlers are called", |seen| began(seen) == 6);
        if closes {
            let script = async {
                six.await;
                RULE.ok("closing", crew.broker.close(PATIENCE)).await;
            };
            let (ended, ()) = crew.during(worker, script).await;
            RULE.same("how it ended", RULE.unwrap("working", ended), Ended::Closed);
        } else {
            let mut worker = Box::pin(worker);
            RULE.within("six handlers are called", async {
                tokio::select! {
                    _ = worker.as_mut() => panic!("worker-close: it ended by itself"),
                    () = six => {}
                }
            })
            .await;
            drop(give_up(worker, 1).await);
        }
        let dropped = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Dropped { .. }));
        crew.until("its handlers are dropped", |seen| dropped(seen) == 6).await;
        RULE.same("nothing of them is committed", other.left().await, 6);
        let script = async {
            other.handled(6).await;
            other.leaves("another one takes over", 0).await;
            other.stop.stop();
        };
        other.stopped(other.sharer("b").run(note), script).await;
        other.each_once("another one takes over", 0..6);
    }
}
