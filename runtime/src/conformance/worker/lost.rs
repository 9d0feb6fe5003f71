use std::time::Duration;

use super::crew::{Crew, Hand, Seen, Work, count, done, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::error::{Cause, ErrorKind};
use crate::stream::{Delivery, Start, StreamSettings};

const RULE: Rule = Rule("ack-group-lost");
/// A worker looks every second up to where everything is acknowledged. This is for two looks.
const LOOKS: Duration = Duration::from_secs(3);

fn gaps(seen: &[Seen]) -> usize {
    count(seen, |seen| matches!(seen, Seen::Gap(Cause::Vanished, _)))
}

/// `ack-group-lost`: a group that vanishes under a worker is told as a gap and made anew where everything was acknowledged:
/// nothing is lost, and what was acknowledged doesn't come again.
pub async fn worker_group_lost<S: Subject<Backend: AckGroups>>(subject: S) {
    for partitions in [1, 3] {
        let settings = StreamSettings::new().partitions(partitions);
        let crew = Crew::with(RULE, &subject, settings, limits()).await;
        let other = Crew::beside(RULE, &subject, limits());
        let script = async {
            // The control: without a loss there is no gap.
            crew.append(0..20, 20).await;
            crew.handled(20).await;
            crew.pending_is("everything is acknowledged", []).await;
            tokio::time::sleep(LOOKS).await;
            RULE.same("the control: no gap without a loss", gaps(&crew.journal.seen()), 0);
            for round in 1..=2 {
                RULE.that(RULE.ok("removing", other.group.delete()).await, "the group was there");
                // Before it is made anew, or after: either way it comes.
                crew.append(round * 20..round * 20 + 20, 20).await;
                crew.until("the gap is told", |seen| gaps(seen) as u64 >= round).await;
                crew.handled(usize::try_from(round * 20 + 20).expect("it is small")).await;
                crew.pending_is("everything is acknowledged", []).await;
                tokio::time::sleep(LOOKS).await;
            }
            crew.stop.stop();
        };
        crew.stopped(crew.worker("a").concurrency(2).run(note), script).await;
        crew.each_once("over two losses", 0..60);
        RULE.same("gaps of two losses", gaps(&crew.journal.seen()), 2);
        RULE.same(
            "what is told by the callback",
            count(&crew.journal.seen(), |seen| *seen == Seen::Told(Cause::Vanished)),
            2,
        );
    }
    unsettled_comes_again::<S>(&subject).await;
    never_there::<S>(&subject).await;
}

/// What failed, or was under way and fails, isn't settled by a loss of the group.
async fn unsettled_comes_again<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    let other = Crew::beside(RULE, subject, limits());
    crew.append(0..6, 6).await;
    let worker = crew.worker("a").concurrency(6).run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        match doing.n {
            // Fails before the loss.
            0 => return Err("the test's own error".into()),
            // Fail and succeed after it.
            1 | 2 => hand.gate.stopped().await,
            _ => {}
        }
        if doing.n == 1 {
            return Err("the test's own error".into());
        }
        doing.done();
        Ok(())
    });
    let failed = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::Unsettled(..)));
    let script = async {
        crew.handled(3).await;
        crew.until("the first fails", |seen| failed(seen) == 1).await;
        crew.pending_is("two are under way and one has failed", 0..3).await;
        tokio::time::sleep(LOOKS).await;
        RULE.that(RULE.ok("removing", other.group.delete()).await, "the group was there");
        crew.gate.stop();
        crew.until("the second fails", |seen| failed(seen) == 2).await;
        crew.until("the gap is told", |seen| gaps(seen) == 1).await;
        crew.append([8], 6).await;
        crew.until("it goes on", |seen| done(seen).contains(&8)).await;
        crew.pending_is("what failed is not settled, and all else is", [0, 1]).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    // 3, 4 and 5 may have been acknowledged after the last look.
    let twice = |n: u64| crew.journal.done().iter().filter(|one| **one == n).count();
    RULE.same("what was under way is handled once", twice(2), 1);
    RULE.same("what comes after", twice(8), 1);
}

async fn never_there<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    let nobody = RULE.unwrap("looking up", crew.stream.ack_group("nobody"));
    let failed = RULE.fails("a group that was never there", nobody.worker("a").run(async |_, ()| Ok(()))).await;
    RULE.same("a group that was never there", failed.kind(), ErrorKind::Absent);
    // The control: where this broker has ensured it, it is waited for and made.
    let other = Crew::beside(RULE, subject, limits());
    RULE.ok("removing", other.group.delete()).await;
    crew.append(0..3, 3).await;
    let script = async {
        crew.handled(3).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(note), script).await;
    crew.each_once("a group that this broker has ensured", 0..3);
}

/// `ack-group-lost`: a stream that vanishes is a gap, too; what is appended to the next one comes, all of it and once.
pub async fn worker_stream_lost<S: Subject<Backend: AckGroups>>(subject: S) {
    // The worker's own broker has ensured it, or another one does.
    for own in [true, false] {
        let first = Crew::start(RULE, &subject).await;
        let crew = if own { first } else { Crew::beside(RULE, &subject, limits()) };
        let other = Crew::beside(RULE, &subject, limits());
        let absent = Seen::Failed(ErrorKind::Absent);
        let script = async {
            crew.append(0..5, 5).await;
            crew.handled(5).await;
            crew.pending_is("everything is acknowledged", []).await;
            // Nothing but the read that waits can notice the loss then.
            tokio::time::sleep(LOOKS).await;
            RULE.that(RULE.ok("removing", other.stream.delete()).await, "the stream was there");
            if !own {
                crew.until("it waits for the stream", |seen| seen.contains(&absent)).await;
                RULE.same("no gap before it goes on", gaps(&crew.journal.seen()), 0);
            }
            RULE.ok("ensuring", other.stream.ensure(StreamSettings::new())).await;
            // Appended before the group is there, or after.
            crew.append(5..15, 5).await;
            if !own {
                RULE.ok("ensuring", other.group.ensure(Start::Earliest)).await;
            }
            crew.until("the gap is told", |seen| gaps(seen) == 1).await;
            crew.append(15..20, 5).await;
            crew.handled(20).await;
            crew.pending_is("everything is acknowledged", []).await;
            crew.stop.stop();
        };
        crew.stopped(crew.worker("a").run(note), script).await;
        crew.each_once("over the loss of the stream", 0..20);
        RULE.same("gaps of one loss", gaps(&crew.journal.seen()), 1);
    }
}
