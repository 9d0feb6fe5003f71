use std::time::Duration;

use super::steps::{last, nth, total};
use crate::capability::CommitGroups;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{ALL, later, places, short};
use crate::error::{ErrorKind, Operation};
use crate::stream::{Position, Positions, Start, StreamSettings};

/// `commit-reset`: a group without members is moved to the earliest, the latest, a time or a position, clamped to what is
/// there; one with members is left as it is (F03, F13).
pub async fn commit_reset<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-reset");
    let stream = RULE.entries(&subject).await;
    let group = RULE.commits(&stream, "g").await;
    let far = RULE.elsewhere(&subject, "g");
    let mut told = RULE.fill(&stream, 0..6).await;
    let between = later().await;
    told.extend(RULE.fill(&stream, 6..10).await);
    let unknown = RULE.unwrap("looking up", stream.commit_group("nobody"));
    let refused = RULE.fails("a group that nobody made", unknown.reset_offsets(Start::Earliest)).await;
    RULE.refused("a group that nobody made", &refused, ErrorKind::Absent);

    let beyond = Position::new(0, told[9].offset() + 1_000_000);
    let starts = [
        ("the earliest", Start::Earliest, 0),
        ("the latest", Start::Latest, 10),
        ("a time", Start::At(between), 6),
        ("after the fifth", Start::from(told[4]), 5),
        ("after the first", Start::from(told[0]), 1),
        ("after the last", Start::from(told[9]), 10),
        ("beyond the end", Start::from(beyond), 10),
        ("no position", Start::from(Positions::new()), 0),
        ("back again", Start::from(told[5]), 6),
    ];
    for (what, start, next) in starts {
        let moved = RULE.ok(what, far.reset_offsets(start.clone())).await;
        RULE.same(&format!("{what}, what it says"), &moved, &RULE.committed(&group).await);
        let expected = usize::checked_sub(next, 1).map(|last| told[last]);
        RULE.same(&format!("{what}, what is committed"), moved.get(0), expected);
        RULE.same(&format!("{what}, what is left"), RULE.behind_by(&group).await, [10 - next as u64]);
        let one = RULE.joins(&group).await;
        if next < 10 {
            RULE.gives(what, &one, next as u64..10).await;
        } else {
            RULE.gives_nothing(what, &one).await;
        }
        RULE.within("leaving", one.leave()).await;
    }

    // With a member it is refused, and nothing moves; without, it works again.
    let one = RULE.joins(&far).await;
    let read = RULE.gives("reading", &one, 6..10).await;
    for start in [Start::Earliest, Start::Latest, Start::from(told[0])] {
        let refused = RULE.fails("with a member", group.reset_offsets(start)).await;
        RULE.refused("with a member", &refused, ErrorKind::Conflict);
        RULE.same("the operation", refused.operation(), Operation::Reset);
        RULE.that(!refused.is_transient(), "a conflict doesn't pass by itself");
    }
    let refused = RULE.fails("removing with a member", group.delete()).await;
    RULE.refused("removing with a member", &refused, ErrorKind::Conflict);
    RULE.committed_is("with a member", &group, 0, told[5]).await;
    RULE.ok("the member goes on", one.commit(places(&read))).await;
    RULE.committed_is("the member goes on", &group, 0, told[9]).await;
    RULE.within("leaving", one.leave()).await;
    RULE.ok("the control: without members", group.reset_offsets(told[2])).await;
    RULE.committed_is("the control: without members", &far, 0, told[2]).await;

    // Other groups stay where they are, and each partition is moved.
    let other = RULE.commits(&stream, "other").await;
    RULE.ok("moving", group.reset_offsets(Start::Latest)).await;
    RULE.committed_is("another group", &other, 0, None).await;
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(3))).await;
    let group = RULE.commits(&stream, "wide").await;
    let spread = RULE.spread::<S>(&stream, 3, 4).await;
    RULE.ok("the latest", group.reset_offsets(Start::Latest)).await;
    RULE.same("the latest, in every partition", RULE.behind_by(&group).await, [0; 3]);
    let some: Positions = nth(&spread, &[0, 2], 1).into_iter().collect();
    let moved = RULE.ok("some partitions", group.reset_offsets(some.clone())).await;
    RULE.same("a partition without a position begins at its first record", moved, some);
    let lag = RULE.behind_by(&group).await;
    let left = [0, 1, 2].map(|partition: u32| spread[&partition].len() as u64 - if partition == 1 { 0 } else { 2 });
    RULE.same("what is left of each", lag, left);
}

/// `commit-lag`: for each partition what comes after the committed position is counted; never less than nothing (F11, F12).
pub async fn commit_lag<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-lag");
    const COUNT: u64 = 200;
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(2)).await;
    let group = RULE.commits(&stream, "g").await;
    let far = RULE.elsewhere(&subject, "g");
    RULE.same("nothing is there", RULE.behind_by(&group).await, [0, 0]);
    let spread = RULE.spread::<S>(&stream, 2, 5).await;
    let counts = [0, 1].map(|partition| spread[&partition].len() as u64);
    RULE.same("everything", RULE.behind_by(&far).await, counts);
    let one = RULE.joins(&group).await;
    RULE.gathers("reading", &one, total(&spread)).await;
    RULE.same("reading acknowledges nothing", RULE.behind_by(&far).await, counts);
    RULE.ok("committing", one.commit(nth(&spread, &[1], 2))).await;
    let lag = RULE.ok("counting", far.lag()).await;
    RULE.same("of one partition", [lag[0].records, lag[1].records], [counts[0], counts[1] - 3]);
    let committed = [lag[0].committed, lag[1].committed];
    RULE.same("up to where", committed, [None, Some(spread[&1][2].1)]);
    RULE.ok("committing", one.commit(last(&spread, &[0, 1]))).await;
    RULE.same("all is acknowledged", RULE.behind_by(&far).await, [0, 0]);

    // While it is busy: the end may be looked up before the commit, or after.
    let producing = async {
        for n in 0..COUNT {
            RULE.ok("appending", stream.append(&n, &Entry { n })).await;
        }
    };
    let consuming = async {
        let mut read = 0;
        while read < COUNT {
            let page = RULE.ok("reading", one.read(16, Duration::from_millis(20))).await;
            read += page.len() as u64;
            if !page.is_empty() {
                RULE.ok("committing", one.commit(places(&page))).await;
            }
        }
    };
    let counting = async {
        for _ in 0..COUNT {
            let lag = RULE.behind_by(&far).await;
            RULE.that(lag.iter().all(|records| *records <= COUNT), &format!("{lag:?} of at most {COUNT}"));
            tokio::task::yield_now().await;
        }
    };
    RULE.within("a busy group", async { tokio::join!(producing, consuming, counting) }).await;
    RULE.same("all is acknowledged", RULE.behind_by(&far).await, [0, 0]);

    // What was removed before it was read can't be read any more.
    RULE.within("leaving", one.leave()).await;
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(short::<S>())).await;
    let group = RULE.commits(&stream, "short").await;
    let told = RULE.fill(&stream, 0..3).await;
    RULE.overrun(&subject, &stream, told[2]).await;
    let left = RULE.ok("reading", stream.read(Start::Earliest, ALL, Duration::ZERO)).await.len() as u64;
    RULE.same("only what is left to be read", RULE.behind_by(&group).await, [left]);
    if !S::COUNTS {
        // Once used, and empty (F11).
        let last = RULE.read("reading", &stream, Start::Earliest).await.last().map(crate::Delivery::position);
        let last = last.expect("something is left");
        RULE.within("removing past the backend", subject.remove_raw(stream.address(), last)).await;
        RULE.same("nothing is left to be read", RULE.behind_by(&group).await, [0]);
    }
}
