use std::time::Duration;

use tokio::time::Instant;

use super::Streams;
use super::entries::{Entry, Other};
use super::steps::{LONG, all, behind, give_up, later, parted, places};
use crate::conformance::rule::{Rule, limits};
use crate::error::ErrorKind;
use crate::stream::{Position, Positions, Start, StreamSettings};

/// `read-after`: reading returns what is strictly after its start, in order, none twice and none left out.
pub async fn read_after<S: Streams>(subject: S) {
    const RULE: Rule = Rule("read-after");
    let stream = RULE.entries(&subject).await;
    let reader = RULE.bound(&subject);
    for start in [Start::Earliest, Start::Latest, Positions::new().into()] {
        RULE.reads("a stream without records", &reader, start, []).await;
    }
    let mut positions = RULE.fill(&stream, 0..5).await;
    let between = later().await;
    positions.extend(RULE.fill(&stream, 5..10).await);
    let end = later().await;

    RULE.reads("from the earliest", &reader, Start::Earliest, 0..10).await;
    RULE.reads("after no position", &reader, Positions::new(), 0..10).await;
    RULE.reads("from the latest", &reader, Start::Latest, []).await;
    RULE.reads("from a time between", &reader, Start::At(between), 5..10).await;
    RULE.reads("from a time before", &reader, Start::At(std::time::UNIX_EPOCH), 0..10).await;
    RULE.reads("from a time behind", &reader, Start::At(end), []).await;
    for (n, position) in (0..).zip(&positions) {
        RULE.reads("strictly after a position", &reader, *position, n + 1..10).await;
    }
    let far = Position::new(0, u128::from(u64::MAX) << 64);
    RULE.reads("after what isn't there yet", &reader, far, []).await;
    RULE.reads("a partition that isn't there", &reader, Position::new(7, 1), 0..10).await;

    // Pages of every size: each record once, in order, at the position that was told.
    for max in [1, 2, 3, 9, 10, 11] {
        let (mut read, mut last) = (Vec::new(), None);
        loop {
            let page = RULE.ok("reading a page", reader.read(behind(last), max, Duration::ZERO)).await;
            RULE.that(page.len() <= max, &format!("{} records where {max} were asked for", page.len()));
            let Some(end) = page.last() else { break };
            last = Some(end.position());
            read.extend(places(&page));
            RULE.that(page.iter().all(|delivery| delivery.attempt() == 1), "a plain read is the first attempt");
        }
        RULE.same(&format!("pages of {max}"), &read, &positions);
    }
}

/// `read-after`: each partition is read after its own position, from its first record where it has none.
pub async fn read_partitions<S: Streams>(subject: S) {
    const RULE: Rule = Rule("read-after");
    const KEYS: u64 = 12;
    const EACH: u64 = 5;
    let stream = RULE.entries_of(&subject, parted::<S>(3)).await;
    let mut told = Vec::new();
    for n in 0..EACH * KEYS {
        let receipt = RULE.ok("appending", stream.append(&(n % KEYS), &Entry { n })).await;
        told.push(RULE.stored("appending", receipt));
    }
    let read = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("all of them", read.len(), told.len());
    if S::PARTITIONS < 3 {
        // One after another, as it is within a partition.
        RULE.same("in the order of the appends", places(&read), told);
        return;
    }
    let of = |partition: u32| told.iter().copied().filter(move |position| position.partition() == partition);
    for partition in 0..3 {
        RULE.that(of(partition).count() > 3, "the test's keys must reach every partition");
        let own: Vec<_> = places(&read).into_iter().filter(|position| position.partition() == partition).collect();
        RULE.same("a partition in its order", own, of(partition).collect::<Vec<_>>());
        // One partition has a position, the others begin at their first record.
        let Some(third) = of(partition).nth(2) else { continue };
        let left = RULE.read("reading", &stream, third).await;
        RULE.same("after one partition's position", left.len(), told.len() - 3);
        let fresh = |position: &Position| position.partition() != partition || *position > third;
        RULE.that(places(&left).iter().all(fresh), "what is at or before the position must not come again");
    }
    // Pages over all partitions.
    for max in [1, 7] {
        let mut after = Positions::new();
        let mut seen = Vec::new();
        loop {
            let page = RULE.ok("reading a page", stream.read(after.clone(), max, Duration::ZERO)).await;
            if page.is_empty() {
                break;
            }
            RULE.that(page.len() <= max, "a page holds at most what was asked for");
            after.extend(places(&page));
            seen.extend(places(&page));
        }
        let (mut seen, mut all) = (seen, told.clone());
        for positions in [&mut seen, &mut all] {
            positions.sort_by_key(|position| (position.partition(), position.offset()));
        }
        RULE.same("every record once", seen, all);
    }
    let latest = RULE.read("reading", &stream, Start::Latest).await;
    RULE.that(latest.is_empty(), "the latest of every partition");
}

/// `read-after`: a read waits for its first record and no longer than it may, and holds up nothing else.
pub async fn read_waits<S: Streams>(subject: S) {
    const RULE: Rule = Rule("read-after");
    /// What a busy machine may add.
    const SLACK: Duration = Duration::from_secs(3);
    // A wait longer than an operation's timeout is no timeout.
    let timeout = Duration::from_millis(200);
    let stream = RULE.bound_with(&subject, limits().timeout(timeout));
    RULE.ok("creating the stream", RULE.bound(&subject).ensure(StreamSettings::new())).await;
    for wait in [0, 50, 600].map(Duration::from_millis) {
        let began = Instant::now();
        let read = RULE.ok("waiting for nothing", stream.read(Start::Earliest, 10, wait)).await;
        RULE.that(read.is_empty(), "there is nothing to be read");
        let waited = began.elapsed();
        RULE.that(waited < wait + SLACK, &format!("a wait of {wait:?} took {waited:?}"));
        // Systems round to milliseconds.
        RULE.that(waited + Duration::from_millis(2) >= wait, &format!("a wait of {wait:?} ended after {waited:?}"));
    }

    let stream = RULE.bound(&subject);
    let others = RULE.unwrap("binding", Other::stream(stream.broker()));
    RULE.ok("creating another stream", others.ensure(StreamSettings::new())).await;
    let began = Instant::now();
    let mut reads: Vec<_> = (0..4).map(|_| Box::pin(stream.read(Start::Earliest, 10, LONG))).collect();
    for read in &mut reads {
        let early = give_up(read.as_mut(), 50).await;
        RULE.that(early.is_none(), "a read must wait while there is nothing");
    }
    // Meanwhile the same broker does other things, then wakes those who wait.
    for n in 0..10 {
        RULE.ok("appending elsewhere while reads wait", others.append(&1, &Other { n })).await;
    }
    RULE.ok("reading elsewhere while reads wait", others.read(Start::Earliest, 10, LONG)).await;
    RULE.fill(&stream, [7]).await;
    for read in RULE.within("those who wait", all(reads)).await {
        let read = RULE.unwrap("a read that waited", read);
        RULE.same("what a read waited for", RULE.numbers("reading", &read), [7]);
    }
    RULE.that(began.elapsed() < LONG, "what a read waits for must wake it");

    // What comes before the wait isn't missed, and the latest is resolved when the call is made.
    let reading = stream.read(Start::Latest, 1, LONG);
    let appending = async {
        let mut n = 100;
        loop {
            RULE.fill(&stream, [n]).await;
            n += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let read = RULE.within("waiting for the next", async {
        tokio::select! {
            read = reading => read,
            () = appending => unreachable!("it loops"),
        }
    });
    let read = RULE.unwrap("waiting for the next", read.await);
    let numbers = RULE.numbers("reading", &read);
    RULE.that(numbers.iter().all(|n| *n >= 100) && numbers.len() == 1, &format!("the latest gave {numbers:?}"));
}

/// `read-cancelled`: a read that is dropped at any step leaves no trace, and a tail's loses nothing. A tail that is left alone
/// in the middle of one holds nobody up.
pub async fn read_cancelled<S: Streams>(subject: S) {
    const RULE: Rule = Rule("read-cancelled");
    const ROUNDS: u64 = 60;
    let stream = RULE.entries_of(&subject, StreamSettings::new()).await;
    let producer = RULE.bound(&subject);
    let mut tail = stream.tail(Start::Earliest);
    let mut tailed = Vec::new();
    for n in 0..ROUNDS {
        let steps = n % 12;
        for wait in [Duration::ZERO, LONG] {
            if let Some(read) = give_up(stream.read(Start::Earliest, 100, wait), steps).await {
                let read = RULE.numbers("a read that was done", &RULE.unwrap("reading", read));
                RULE.same("a read that was done", read, (0..n).collect::<Vec<_>>());
            }
        }
        if let Some(next) = give_up(tail.receive(), steps).await {
            tailed.push(RULE.number("tailing", &RULE.unwrap("tailing", next)));
        }
        RULE.fill(&producer, [n]).await;
        RULE.that(give_up(stream.append(&2, &Entry { n: 0 }), 0).await.is_none(), "not even begun");
    }
    RULE.reads("after dropped reads", &stream, Start::Earliest, 0..ROUNDS).await;
    while (tailed.len() as u64) < ROUNDS {
        let next = RULE.ok("tailing", tail.receive()).await;
        tailed.push(RULE.number("tailing", &next));
    }
    RULE.same("what a tail gave", tailed, (0..ROUNDS).collect::<Vec<_>>());
    for steps in 0..12 {
        // Its broker knows nothing of the system yet.
        let beside = RULE.bound(&subject);
        let mut alone = beside.tail(Start::Earliest);
        drop(give_up(alone.receive(), steps).await);
        RULE.reads("beside a tail that is left alone", &beside, Start::Earliest, 0..ROUNDS).await;
        drop(alone);
    }
    RULE.eventually("dropped reads are over", async || stream.broker().stats().operations == 0).await;
    let failed = RULE.fails("the control: reading too much", stream.read(Start::Earliest, 0, LONG)).await;
    RULE.refused("the control: reading too much", &failed, ErrorKind::Invalid);
}
