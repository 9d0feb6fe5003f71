use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream as _;

use super::Streams;
use super::steps::{HOUR, give_up, later};
use crate::capability::{AckGroups, Log};
use crate::conformance::rule::Rule;
use crate::error::ErrorKind;
use crate::stream::{Reader, Start, StreamSettings, Tail};

use super::entries::Entry;

impl Rule {
    async fn tailed<B: Log>(self, what: &str, tail: &mut Reader<Entry, B>) -> u64 {
        let next = self.ok(what, tail.receive()).await;
        self.number(what, &next)
    }

    async fn followed<B: AckGroups>(self, what: &str, tail: &mut Tail<Entry, B>) -> u64 {
        let next = self.ok(what, tail.receive()).await;
        self.number(what, &next)
    }
}

/// `tail`: a tail resolves its start once and then delivers everything, for ever; the third after the first two.
pub async fn tail<S: Streams>(subject: S) {
    const RULE: Rule = Rule("tail");
    let stream = RULE.bound(&subject);
    let mut tail = stream.tail(Start::Earliest);
    let failed = RULE.fails("tailing no stream", tail.receive()).await;
    RULE.refused("tailing no stream", &failed, ErrorKind::Absent);
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let producer = RULE.bound(&subject);

    // From the earliest, appended before, while nobody waits, and while one waits.
    RULE.fill(&producer, [1, 2]).await;
    for n in [1, 2] {
        RULE.same("the first two", RULE.tailed("tailing", &mut tail).await, n);
    }
    RULE.fill(&producer, [3]).await;
    RULE.same("the third", RULE.tailed("tailing", &mut tail).await, 3);
    RULE.that(give_up(tail.receive(), 50).await.is_none(), "a tail waits while there is nothing");
    RULE.fill(&producer, [4]).await;
    RULE.same("the fourth, that was waited for", RULE.tailed("tailing", &mut tail).await, 4);

    // From the end of the first call, not of each call, where a time to come is, too. What shows that it is resolved is
    // that something came.
    let mut coming = stream.tail(Start::At(later().await + HOUR));
    let mut latest = stream.tail(Start::Latest);
    let mut n = 100;
    for (what, tail) in [("from a time to come", &mut coming), ("from the latest", &mut latest)] {
        let begin = n;
        // An append that is given up may have been appended, so the last one is awaited.
        let came = std::sync::atomic::AtomicBool::new(false);
        let appending = async {
            while !came.load(std::sync::atomic::Ordering::Relaxed) {
                RULE.fill(&producer, [n]).await;
                n += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let tailing = async {
            let first = RULE.tailed(what, tail).await;
            came.store(true, std::sync::atomic::Ordering::Relaxed);
            first
        };
        let (first, ()) = tokio::join!(tailing, appending);
        RULE.that(first >= begin, &format!("{what}: it begins after what was there"));
        for expected in first + 1..n {
            RULE.same(&format!("{what}: what came between"), RULE.tailed(what, tail).await, expected);
        }
    }
    for round in 0..5 {
        RULE.fill(&producer, [1_000 + round, 2_000 + round]).await;
        RULE.same("appended between calls", RULE.tailed("tailing", &mut latest).await, 1_000 + round);
        RULE.fill(&producer, [3_000 + round]).await;
        for expected in [2_000, 3_000] {
            RULE.same("appended between calls", RULE.tailed("tailing", &mut latest).await, expected + round);
        }
    }

    // From a time and from a position, and as a `futures` stream.
    let time = later().await;
    let told = RULE.fill(&producer, [5_000, 5_001]).await;
    let mut timed = stream.tail(Start::At(time));
    let mut behind = stream.tail(told[0]);
    RULE.same("from a time", RULE.tailed("tailing", &mut timed).await, 5_000);
    RULE.same("from a position", RULE.tailed("tailing", &mut behind).await, 5_001);
    let next = RULE.within("as a stream", std::future::poll_fn(|cx| Pin::new(&mut timed).poll_next(cx))).await;
    let next = next.map(|next| RULE.number("as a stream", &RULE.unwrap("as a stream", next)));
    RULE.same("as a stream", next, Some(5_001));
}

/// `ack-follow`: following a group reads new entries for ever, the consumer's own pending ones first when asked.
pub async fn ack_follow<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-follow");
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, other) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "other"));
    RULE.fill(&stream, 0..5).await;
    RULE.takes("reading", &one, 3, [0, 1, 2]).await;
    RULE.takes("reading", &other, 1, [3]).await;

    // The same name again, as after a crash: what it had first, counted, each once, then what is new.
    let again = RULE.bound(&subject);
    let again = RULE.consumer(&RULE.unwrap("looking up", again.ack_group("g")), "one");
    let mut tail = again.tail(true);
    for n in 0..3 {
        let next = RULE.ok("following", tail.receive()).await;
        RULE.same("one's own first", (RULE.number("following", &next), next.attempt()), (n, 2));
    }
    let next = RULE.ok("following", tail.receive()).await;
    RULE.same("then what is new", (RULE.number("following", &next), next.attempt()), (4, 1));
    RULE.that(give_up(tail.receive(), 50).await.is_none(), "following waits while there is nothing");
    RULE.fill(&stream, [5, 6]).await;
    for n in [5, 6] {
        RULE.same("what comes", RULE.followed("following", &mut tail).await, n);
    }
    RULE.fill(&stream, [7]).await;
    RULE.same("the third after the first two", RULE.followed("following", &mut tail).await, 7);
    RULE.same("nothing was lost", tail.take_lost(), Vec::new());

    // Without asking, nothing of one's own comes; it stays pending.
    let mut new = RULE.consumer(&group, "other").tail(false);
    RULE.fill(&stream, [8]).await;
    let next = std::future::poll_fn(|cx| Pin::new(&mut new).poll_next(cx));
    let next = RULE.within("as a stream", next).await.map(|next| RULE.unwrap("as a stream", next));
    RULE.same("only what is new", next.map(|next| RULE.number("following", &next)), Some(8));
    let own = RULE.ok("reading the history", other.history(None, 10)).await;
    RULE.same("what stayed pending", RULE.numbers("history", &own.deliveries), [3, 8]);
    RULE.claims("nobody has been idle for an hour", &other, HOUR, 10, []).await;
}
