use std::time::Duration;

use tokio::time::Instant;

use super::Streams;
use super::entries::Entry;
use super::steps::{HOUR, LONG, all, give_up};
use crate::capability::AckGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::{PATIENCE, Subject};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{Start, StreamSettings};

/// `close-waits`: a close ends reads that wait, with `Closed`, and nothing works afterwards.
pub async fn stream_close<S: Streams>(subject: S) {
    const RULE: Rule = Rule("close-waits");
    let stream = RULE.entries(&subject).await;
    let neighbour = RULE.bound(&subject);
    let mut tail = stream.tail(Start::Earliest);
    let reads: Vec<_> = (0..3).map(|_| stream.read(Start::Earliest, 1, LONG)).collect();
    let other = neighbour.read(Start::Earliest, 1, LONG);
    let began = Instant::now();
    let waiting = async { tokio::join!(all(reads), tail.receive(), other) };
    let closing = async {
        // Not before they wait.
        RULE.eventually("the reads wait", async || stream.broker().stats().operations == 3).await;
        RULE.ok("closing while reads wait", stream.broker().close(PATIENCE)).await;
        RULE.that(began.elapsed() < LONG, "a close doesn't wait for a read's time to pass");
        RULE.fill(&neighbour, [1]).await;
    };
    let ((reads, tailed, other), ()) =
        RULE.within("closing while reads wait", async { tokio::join!(waiting, closing) }).await;
    for read in reads {
        RULE.same("a read of a closed broker", RULE.unwrap_err("reading", read).kind(), ErrorKind::Closed);
    }
    RULE.same("a tail of a closed broker", RULE.unwrap_err("tailing", tailed).kind(), ErrorKind::Closed);
    let other = RULE.numbers("reading", &RULE.unwrap("the control: a neighbour's read", other));
    RULE.same("the control: a neighbour's read", other, [1]);

    let entry = Entry { n: 2 };
    let failed = [
        RULE.fails("appending after a close", stream.append(&1, &entry)).await,
        RULE.fails("a batch after a close", stream.append_all([(&1, &entry)])).await,
        RULE.fails("reading after a close", stream.read(Start::Earliest, 1, LONG)).await,
        RULE.fails("tailing after a close", tail.receive()).await,
        RULE.fails("creating after a close", stream.ensure(StreamSettings::new())).await,
        RULE.fails("removing after a close", stream.delete()).await,
    ];
    for error in failed {
        RULE.refused("an operation after a close", &error, ErrorKind::Closed);
    }
    RULE.reads("what is there", &neighbour, Start::Earliest, [1]).await;
}

/// `close-waits`: a close ends a group's reads that wait; what was delivered stays pending.
pub async fn ack_close<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("close-waits");
    let producer = RULE.entries(&subject).await;
    let stream = RULE.bound(&subject);
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    RULE.fill(&producer, [1]).await;
    let held = RULE.takes("reading", &one, 5, [1]).await;
    let mut tail = one.tail(false);
    let waiting = async { tokio::join!(one.read(5, LONG), tail.receive()) };
    let closing = async {
        RULE.eventually("the reads wait", async || stream.broker().stats().operations == 1).await;
        RULE.ok("closing while reads wait", stream.broker().close(PATIENCE)).await;
    };
    let ((read, tailed), ()) = RULE.within("closing", async { tokio::join!(waiting, closing) }).await;
    RULE.same("a read of a closed broker", RULE.unwrap_err("reading", read).kind(), ErrorKind::Closed);
    RULE.same("a tail of a closed broker", RULE.unwrap_err("tailing", tailed).kind(), ErrorKind::Closed);
    let places = [held[0].position()];
    let failed = [
        RULE.fails("acknowledging", one.ack(places)).await,
        RULE.fails("extending", one.extend(places)).await,
        RULE.fails("releasing", one.release(places)).await,
        RULE.fails("claiming", one.claim(HOUR, 5)).await,
        RULE.fails("history", one.history(None, 5)).await,
        RULE.fails("listing", group.pending(None, 5)).await,
        RULE.fails("counting", group.depth()).await,
        RULE.fails("trimming", group.trim_acknowledged()).await,
        RULE.fails("creating", group.ensure(Start::Earliest)).await,
        RULE.fails("removing", group.delete()).await,
        RULE.fails("removing", group.remove_consumer("one", None)).await,
    ];
    for error in failed {
        RULE.refused("an operation after a close", &error, ErrorKind::Closed);
    }
    // What comes now isn't swallowed by reads that are gone, and what was held still is.
    RULE.fill(&producer, [2]).await;
    let group = RULE.unwrap("looking up", producer.ack_group("g"));
    RULE.takes("what comes after a close", &RULE.consumer(&group, "two"), 5, [2]).await;
    let again = RULE.consumer(&group, "one");
    let own = RULE.ok("history", again.history(None, 5)).await;
    RULE.same("what was held", RULE.numbers("history", &own.deliveries), [1]);
    RULE.same("the control: acknowledging elsewhere", RULE.ok("acknowledging", again.ack(places)).await, 1);
}

/// `stats-true`: operations on streams are counted while they run, and nothing is left of them.
pub async fn stream_stats<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stats-true");
    let stream = RULE.entries(&subject).await;
    let broker = stream.broker();
    RULE.same("operations at first", broker.stats().operations, 0);
    RULE.fill(&stream, [1]).await;
    RULE.same("operations after an append", broker.stats().operations, 0);
    let mut read = Box::pin(stream.read(Start::Latest, 1, LONG));
    RULE.that(give_up(read.as_mut(), 50).await.is_none(), "a read must wait while there is nothing");
    RULE.same("operations with a read that waits", broker.stats().operations, 1);
    let mut tail = stream.tail(Start::Latest);
    RULE.that(give_up(tail.receive(), 50).await.is_none(), "a tail must wait while there is nothing");
    // A tail may be left alone for ever, so it takes no place.
    RULE.same("operations with a tail that waits", broker.stats().operations, 1);
    drop(read);
    RULE.same("operations after a read was dropped", broker.stats().operations, 0);
    drop(tail);
    RULE.same("subscriptions of streams", broker.stats().live, 0);
    RULE.ok("closing", broker.close(PATIENCE)).await;
    let left = broker.stats();
    let counts = [left.operations, left.setting_up, left.live, left.draining, left.callbacks, left.tasks];
    RULE.same("what is left after a close", counts, [0; 6]);
    RULE.that(left.closing, "a closed broker must say so");
}

/// `stream-refused`: out of reach, every operation fails as not applied; back in reach, everything works as before.
pub async fn stream_refused<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stream-refused");
    let known = RULE.entries(&subject).await;
    RULE.fill(&known, [1]).await;
    let fresh = RULE.bound_with(&subject, limits().timeout(Duration::from_millis(500)));
    let entry = Entry { n: 2 };
    subject.refuse(true).await;
    let failed = [
        (Operation::Append, RULE.fails("appending", fresh.append(&1, &entry)).await),
        (Operation::Read, RULE.fails("reading", fresh.read(Start::Earliest, 1, Duration::ZERO)).await),
        (Operation::Read, RULE.fails("reading", fresh.read(Start::Latest, 1, LONG)).await),
        (Operation::Read, RULE.fails("tailing", fresh.tail(Start::Earliest).receive()).await),
        (Operation::Ensure, RULE.fails("creating", fresh.ensure(StreamSettings::new())).await),
        (Operation::Delete, RULE.fails("removing", fresh.delete()).await),
    ];
    for (operation, error) in failed {
        RULE.same("what failed", error.operation(), operation);
        RULE.same("the outcome out of reach", error.outcome(), Outcome::NotApplied);
        RULE.that(error.is_transient(), &format!("out of reach must be transient, not {error}"));
    }
    subject.refuse(false).await;
    // The same client again: what failed isn't caught up on.
    RULE.eventually("the control: reading in reach", async || {
        fresh.read(Start::Earliest, 1, Duration::ZERO).await.is_ok()
    })
    .await;
    RULE.reads("what is there", &fresh, Start::Earliest, [1]).await;
    RULE.fill(&fresh, [3]).await;
    RULE.reads("what is there", &fresh, Start::Earliest, [1, 3]).await;
}

/// `stream-refused`: an interruption fails what waits, or is outlived by it; the next call goes on where reading stood.
pub async fn stream_interrupted<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stream-refused");
    let stream = RULE.entries(&subject).await;
    let producer = RULE.bound(&subject);
    let mut tail = stream.tail(Start::Earliest);
    let mut read = Vec::new();
    for round in 0..3 {
        let reading = stream.read(Start::Latest, 1, LONG);
        let tailing = async {
            loop {
                match tail.receive().await {
                    Ok(next) => read.push(RULE.number("tailing", &next)),
                    Err(error) => return error,
                }
            }
        };
        let waiting = interrupted(&subject, async { tokio::join!(reading, tailing) });
        let (one, error) = RULE.within("an interruption ends what waits", waiting).await;
        for error in [RULE.unwrap_err("a read that was interrupted", one), error] {
            RULE.that(transient(&error), &format!("an interruption must be told as transient, not {error}"));
        }
        let n = 10 * round;
        let mut sent = n;
        RULE.eventually("appending goes on", async || producer.append(&1, &Entry { n: sent }).await.is_ok()).await;
        sent += 1;
        RULE.fill(&producer, sent..n + 5).await;
        while read.last() != Some(&(n + 4)) {
            let next = RULE.ok("tailing on", next_in_reach(RULE, &mut tail)).await;
            read.push(RULE.number("tailing on", &next));
        }
    }
    let all = RULE.numbers("reading", &RULE.read("reading", &producer, Start::Earliest).await);
    RULE.same("what a tail gave over interruptions", read, all);
}

/// Awaits something while the system is interrupted again and again, since a client may only be about to connect.
async fn interrupted<S: Subject, F: Future>(subject: &S, waiting: F) -> F::Output {
    let interrupting = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            subject.interrupt().await;
        }
    };
    tokio::select! {
        output = waiting => output,
        () = interrupting => unreachable!("it loops"),
    }
}

/// The tail's next, once the system can be reached again: a client may notice an interruption late.
async fn next_in_reach<T, B>(rule: Rule, tail: &mut crate::Reader<T, B>) -> Result<crate::Delivery<T>, Error>
where
    T: crate::StreamSpec + Send + 'static,
    B: crate::capability::Log,
    T::Codec: crate::codec::Decode<T>,
{
    loop {
        match tail.receive().await {
            Err(error) if transient(&error) => tokio::time::sleep(Duration::from_millis(2)).await,
            Err(error) => panic!("{}: tailing on: {error}", rule.0),
            next => return next,
        }
    }
}

fn transient(error: &Error) -> bool {
    error.is_transient() && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// `stream-refused`: a group survives interruptions: nothing acknowledged comes again, nothing else is lost.
pub async fn ack_interrupted<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("stream-refused");
    let producer = RULE.entries(&subject).await;
    let stream = RULE.bound_with(&subject, limits().timeout(Duration::from_secs(2)));
    let group = RULE.group::<S>(&producer, "g").await;
    let one = RULE.consumer(&RULE.unwrap("looking up", stream.ack_group("g")), "one");
    let mut done = Vec::new();
    for round in 0..3 {
        let waiting = interrupted(&subject, one.read(5, LONG));
        let read = RULE.within("an interruption ends what waits", waiting).await;
        let failed = RULE.unwrap_err("a read that was interrupted", read);
        RULE.that(transient(&failed), &format!("an interruption must be told as transient, not {failed}"));
        RULE.eventually("the producer goes on", async || producer.read(Start::Latest, 1, Duration::ZERO).await.is_ok())
            .await;
        RULE.fill(&producer, [2 * round, 2 * round + 1]).await;
        // What a lost read was being handed is pending for its consumer.
        while done.len() as u64 != 2 * round + 2 {
            let mut deliveries = Vec::new();
            if let Ok(own) = RULE.within("history", one.history(None, 5)).await {
                deliveries.extend(own.deliveries);
            }
            if let Ok(new) = RULE.within("reading", one.read(5, Duration::from_millis(20))).await {
                deliveries.extend(new);
            }
            for delivery in deliveries {
                let count = RULE.ok("acknowledging", one.ack([delivery.position()])).await;
                RULE.same("each settled once", count, 1);
                done.push(RULE.number("consuming", &delivery));
            }
        }
    }
    done.sort_unstable();
    RULE.same("each once", done, (0..6).collect::<Vec<_>>());
    RULE.same("what is left pending", RULE.ok("counting", group.depth()).await.pending, 0);

    let place = RULE.fill(&producer, [6]).await[0];
    RULE.takes("reading", &one, 5, [6]).await;
    let fresh = RULE.bound_with(&subject, limits().timeout(Duration::from_millis(500)));
    let fresh = RULE.consumer(&RULE.unwrap("looking up", fresh.ack_group("g")), "one");
    subject.refuse(true).await;
    let failed = [
        RULE.fails("reading", fresh.read(1, Duration::ZERO)).await,
        RULE.fails("acknowledging", fresh.ack([place])).await,
        RULE.fails("claiming", fresh.claim(Duration::ZERO, 1)).await,
        RULE.fails("releasing", fresh.release([place])).await,
        RULE.fails("counting", fresh.group().depth()).await,
    ];
    for error in failed {
        RULE.same("the outcome out of reach", error.outcome(), Outcome::NotApplied);
        RULE.that(error.is_transient(), &format!("out of reach must be transient, not {error}"));
    }
    subject.refuse(false).await;
    RULE.eventually("the control: in reach again", async || fresh.group().depth().await.is_ok()).await;
    RULE.same("it is still pending", RULE.ok("acknowledging", fresh.ack([place])).await, 1);
}
