use std::time::Duration;

use super::crew::{HOUR, Takers, owner, partitions, wide};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, note, quick};
use crate::error::{Cause, ErrorKind};
use crate::stream::{Delivery, Start, StreamSettings};

const RULE: Rule = Rule("cursor-lost");
/// A worker looks every second up to where everything is settled. This is for two looks.
const LOOKS: Duration = Duration::from_secs(3);
/// So long a worker waits that leaves it to another to make what vanished.
const PATIENCE: Duration = Duration::from_secs(1);

fn gaps(seen: &[Seen]) -> usize {
    count(seen, |seen| matches!(seen, Seen::Gap(Cause::Vanished, _)))
}

/// `cursor-lost`: a durable that vanishes under a worker is told as a gap and made anew where everything was settled: nothing
/// is lost, and what was settled doesn't come again.
pub async fn durable_worker_durable_lost<S: Streams<Backend: Cursors>>(subject: S) {
    for partitions in partitions::<S>() {
        let crew = Takers::taking_with(RULE, &subject, partitions, wide(), limits()).await;
        let other = Takers::taking_beside(RULE, &subject, limits());
        let script = async {
            // The control: without a loss there is no gap.
            crew.append(0..20, 20).await;
            crew.handled(20).await;
            crew.leaves("everything is acknowledged", (0, 0)).await;
            tokio::time::sleep(LOOKS).await;
            RULE.same("the control: no gap without a loss", gaps(&crew.journal.seen()), 0);
            for round in 1..=2 {
                RULE.that(RULE.ok("removing", other.group.delete()).await, "the durable was there");
                // Before it is made anew, or after: either way it comes.
                crew.append(round * 20..round * 20 + 20, 20).await;
                crew.until("the gap is told", |seen| gaps(seen) as u64 >= round).await;
                crew.handled(usize::try_from(round * 20 + 20).expect("it is small")).await;
                crew.leaves("everything is acknowledged", (0, 0)).await;
                tokio::time::sleep(LOOKS).await;
            }
            crew.stop.stop();
        };
        crew.stopped(crew.taker("a").concurrency(2).run(note), script).await;
        crew.each_once("over two losses", 0..60);
        let seen = crew.journal.seen();
        RULE.same("gaps of two losses", gaps(&seen), 2);
        RULE.same("what is told by the callback", count(&seen, |seen| *seen == Seen::Told(Cause::Vanished)), 2);
    }
    unsettled_comes_again::<S>(&subject).await;
    never_there::<S>(&subject).await;
}

/// `cursor-lost`: a durable that another removes and makes anew before the worker looks is told as a gap, and gone on with.
pub async fn durable_worker_made_anew<S: Streams<Backend: Cursors>>(subject: S) {
    let crew = Takers::taking(RULE, &subject, wide()).await;
    let other = Takers::taking_beside(RULE, &subject, limits());
    let script = async {
        crew.append(0..20, 20).await;
        crew.handled(20).await;
        crew.leaves("everything is acknowledged", (0, 0)).await;
        for round in 1..=2 {
            RULE.that(RULE.ok("removing", other.group.delete()).await, "the durable was there");
            let made = RULE.ok("creating", other.group.ensure(wide().start(Start::Latest))).await;
            RULE.that(made, "another was faster than the worker");
            crew.append(round * 20..round * 20 + 20, 20).await;
            crew.until("the gap is told", |seen| gaps(seen) as u64 >= round).await;
            crew.handled(usize::try_from(round * 20 + 20).expect("it is small")).await;
            crew.leaves("everything is acknowledged", (0, 0)).await;
        }
        crew.stop.stop();
    };
    let worker = crew.taker("a").backoff(quick().initial(PATIENCE).max(PATIENCE));
    crew.stopped(worker.run(note), script).await;
    crew.each_once("over two durables made anew", 0..60);
    RULE.same("gaps of two durables made anew", gaps(&crew.journal.seen()), 2);
}

/// What waits for its next attempt, or is under way, isn't settled by a loss of the durable.
async fn unsettled_comes_again<S: Streams<Backend: Cursors>>(subject: &S) {
    const KEYS: u64 = 6;
    let crew = Takers::taking(RULE, subject, wide()).await;
    let other = Takers::taking_beside(RULE, subject, limits());
    crew.append(0..2 * KEYS, KEYS).await;
    let worker = crew.taker("a").concurrency(6).retry_after(HOUR, HOUR);
    let running = worker.run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        let is_first = hand.journal.began().iter().filter(|(n, _)| *n == doing.n).count() == 1;
        match doing.n {
            // Fails before the loss, and would come again in an hour.
            6 if is_first => return Err("the test's own error".into()),
            // Fail and succeed after it.
            7 | 8 => hand.gate.stopped().await,
            _ => {}
        }
        if doing.n == 7 && is_first {
            return Err("the test's own error".into());
        }
        doing.done();
        Ok(())
    });
    let script = async {
        crew.handled(9).await;
        crew.until("one fails", |seen| count(seen, |seen| matches!(seen, Seen::Retrying { .. })) == 1).await;
        crew.leaves("two are under way and one has failed", (0, 3)).await;
        tokio::time::sleep(LOOKS).await;
        RULE.that(RULE.ok("removing", other.group.delete()).await, "the durable was there");
        crew.until("the gap is told", |seen| gaps(seen) == 1).await;
        crew.gate.stop();
        crew.append([20], KEYS).await;
        crew.leaves("in the end all is settled", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    crew.one_at_a_time(KEYS);
    let done = crew.journal.done();
    let times = |n: u64| done.iter().filter(|one| **one == n).count();
    for n in 0..6 {
        RULE.same(&format!("how often {n} was handled, which was settled with all before it"), times(n), 1);
    }
    for n in (6..12).chain([20]) {
        RULE.that(times(n) >= 1, &format!("{n}, which wasn't settled with all before it, is handled in the end"));
    }
}

async fn never_there<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide()).await;
    let nobody = RULE.unwrap("looking up", crew.stream.durable(&owner("nobody")));
    let failed = RULE.fails("a durable that was never there", nobody.worker().run(async |_, ()| Ok(()))).await;
    RULE.same("a durable that was never there", failed.kind(), ErrorKind::Absent);
    // The control: where this broker has ensured it, it is made.
    let other = Takers::taking_beside(RULE, subject, limits());
    RULE.ok("removing", other.group.delete()).await;
    crew.append(0..3, 3).await;
    let script = async {
        crew.handled(3).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").run(note), script).await;
    crew.each_once("a durable that this broker has ensured", 0..3);
}

/// Who makes a stream anew that vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    /// The worker, whose broker has ensured stream and durable.
    Worker,
    /// Another one, before that worker looks, with more records than there were.
    Another,
    /// Another one, since the worker's broker has ensured nothing.
    Owner,
}

/// `cursor-lost`: a stream that vanishes is a gap, too; what is appended to the next one comes, all of it and once.
pub async fn durable_worker_stream_lost<S: Streams<Backend: Cursors>>(subject: S) {
    // `Another` first, while fewer were settled than the new stream will have.
    for maker in [Maker::Another, Maker::Worker, Maker::Owner] {
        let first = Takers::taking(RULE, &subject, wide()).await;
        let crew = if maker == Maker::Owner { Takers::taking_beside(RULE, &subject, limits()) } else { first };
        let other = Takers::taking_beside(RULE, &subject, limits());
        let absent = Seen::Failed(ErrorKind::Absent);
        let script = async {
            crew.append(0..5, 5).await;
            crew.handled(5).await;
            crew.leaves("everything is acknowledged", (0, 0)).await;
            // It knows that all five are settled then.
            tokio::time::sleep(LOOKS).await;
            RULE.that(RULE.ok("removing", other.stream.delete()).await, "the stream was there");
            match maker {
                Maker::Worker => crew.until("the gap is told", |seen| gaps(seen) == 1).await,
                Maker::Another => {}
                Maker::Owner => {
                    crew.until("it waits for the stream", |seen| seen.contains(&absent)).await;
                    RULE.same("no gap before it goes on", gaps(&crew.journal.seen()), 0);
                }
            }
            RULE.ok("ensuring", other.stream.ensure(StreamSettings::new())).await;
            // Appended before the durable is there, or after.
            crew.append(5..15, 5).await;
            if maker == Maker::Owner {
                RULE.ok("ensuring", other.group.ensure(wide())).await;
            }
            crew.until("the gap is told", |seen| gaps(seen) == 1).await;
            crew.append(15..20, 5).await;
            crew.handled(20).await;
            crew.leaves("everything is acknowledged", (0, 0)).await;
            crew.stop.stop();
        };
        let patience = if maker == Maker::Another { PATIENCE } else { Duration::from_millis(50) };
        let worker = crew.taker("a").backoff(quick().initial(patience).max(patience));
        crew.stopped(worker.run(note), script).await;
        crew.each_once(&format!("over the loss of the stream, made anew by {maker:?}"), 0..20);
        RULE.same("gaps of one loss", gaps(&crew.journal.seen()), 1);
    }
}
