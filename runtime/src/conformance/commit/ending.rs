use std::time::Duration;

use super::steps::{AWHILE, PATIENT, SOON, total};
use crate::capability::CommitGroups;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{ALL, LONG, give_up, places, spend};
use crate::conformance::{PATIENCE, Streams};
use crate::error::{Error, ErrorKind, Outcome};
use crate::stream::{MemberSettings, Position, Start, StreamSettings};

/// `read-cancelled`: of a member's calls that are dropped at any step nothing is lost, nothing comes twice, and nobody is
/// left behind in the group.
pub async fn commit_cancelled<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("read-cancelled");
    const ROUNDS: u64 = 60;
    let stream = RULE.entries(&subject).await;
    let producer = RULE.bound(&subject);
    let group = RULE.commits(&stream, "g").await;
    // Those that gave up joining aren't there.
    for steps in 0..8 {
        drop(give_up(group.join(MemberSettings::new().hand_over(PATIENT)), steps).await);
    }
    let one = RULE.joins(&group).await;
    RULE.drive("it is alone", &[&one], |_| one.assigned() == [0]).await;
    let mut seen: Vec<(u64, Position)> = Vec::new();
    let mut committed: Option<Position> = None;
    let mut asked: Vec<Position> = Vec::new();
    let mut tail = one.tail();
    for n in 0..ROUNDS {
        for wait in [LONG, Duration::ZERO] {
            // A task that has done much is stopped where it didn't wait before.
            let mut steps = n % 15;
            if n % 2 == 1 {
                steps = 1;
                spend(n / 2 % 8).await;
            }
            if let Some(read) = give_up(one.read(2, wait), steps).await {
                let read = RULE.unwrap("reading", read);
                seen.extend(RULE.numbers("reading", &read).into_iter().zip(places(&read)));
            }
            RULE.fill(&producer, [n]).await;
        }
        if let Some(next) = give_up(tail.receive(), n % 7).await {
            let next = RULE.unwrap("tailing", next);
            seen.push((RULE.number("tailing", &next), next.position()));
        }
        if let Some((_, last)) = seen.iter().max_by_key(|(_, at)| at.offset()).filter(|_| n % 3 == 0) {
            asked.push(*last);
            let done = give_up(one.commit([*last]), n % 5).await;
            let now = RULE.committed(&group).await.get(0);
            // One that was dropped on its way may arrive after a look.
            let is_one = now.is_some_and(|now| asked.contains(&now));
            RULE.that(now == committed || is_one, "a commit is recorded or not");
            RULE.that(now >= committed, "what is committed never goes back");
            if let Some(done) = done {
                RULE.unwrap("committing", done);
                RULE.same("a commit that was done", now, Some(*last));
            }
            committed = now;
        }
    }
    // What the tail has read ahead comes first, and then the rest.
    RULE.within("nothing is lost", async {
        while seen.len() as u64 != 2 * ROUNDS {
            if let Some(next) = give_up(tail.receive(), 1).await {
                let next = RULE.unwrap("tailing", next);
                seen.push((RULE.number("tailing", &next), next.position()));
                continue;
            }
            let read = RULE.ok("reading", one.read(ALL, SOON)).await;
            seen.extend(RULE.numbers("reading", &read).into_iter().zip(places(&read)));
        }
    })
    .await;
    drop(tail);
    RULE.gives_nothing("nothing comes twice", &one).await;
    let mut places: Vec<_> = seen.iter().map(|(_, at)| at.offset()).collect();
    places.sort_unstable();
    places.dedup();
    RULE.same("each once", places.len() as u64, 2 * ROUNDS);
    RULE.eventually("dropped calls are over", async || stream.broker().stats().operations == 0).await;
    // Going back dropped midway goes back, or doesn't.
    for steps in 0..4 {
        drop(give_up(one.seek_to_committed(), steps).await);
    }
    RULE.ok("going back", one.seek_to_committed()).await;
    let left = RULE.behind_by(&group).await[0];
    RULE.gathers("what isn't committed", &one, usize::try_from(left).expect("it is small")).await;
}

/// `close-waits`: a close ends a member's reads that wait, with `Closed`, and its partitions go to the others.
pub async fn commit_close<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("close-waits");
    let producer = RULE.entries_of(&subject, StreamSettings::new().partitions(2)).await;
    let there = RULE.commits(&producer, "g").await;
    let group = RULE.elsewhere(&subject, "g");
    let broker = group.stream().broker().clone();
    let spread = RULE.spread::<S>(&producer, 2, 4).await;
    let one = RULE.joins(&group).await;
    let held = RULE.gathers("reading", &one, total(&spread)).await;
    let place = held[0].position();
    let waiting = async {
        let mut tail = one.tail();
        tokio::join!(one.read(5, LONG), tail.receive())
    };
    let closing = async {
        RULE.eventually("the read waits", async || broker.stats().operations == 1).await;
        RULE.ok("closing while reads wait", broker.close(PATIENCE)).await;
    };
    let ((read, tailed), ()) = RULE.within("closing", async { tokio::join!(waiting, closing) }).await;
    RULE.same("a read of a closed broker", RULE.unwrap_err("reading", read).kind(), ErrorKind::Closed);
    RULE.same("a tail of a closed broker", RULE.unwrap_err("tailing", tailed).kind(), ErrorKind::Closed);
    let failed = [
        RULE.fails("committing", one.commit([place])).await,
        RULE.fails("going back", one.seek_to_committed()).await,
        RULE.fails("reading", one.read(5, SOON)).await,
        RULE.fails("tailing", one.tail().receive()).await,
        RULE.fails("joining", group.join(MemberSettings::new())).await,
        RULE.fails("asking", group.committed()).await,
        RULE.fails("counting", group.lag()).await,
        RULE.fails("moving", group.reset_offsets(Start::Latest)).await,
        RULE.fails("recording", group.ensure(Start::Earliest)).await,
        RULE.fails("removing", group.delete()).await,
    ];
    for error in failed {
        RULE.refused("an operation after a close", &error, ErrorKind::Closed);
    }
    let left = broker.stats();
    let counts = [left.operations, left.setting_up, left.live, left.draining, left.callbacks, left.tasks];
    RULE.same("what is left after a close", counts, [0; 6]);
    // The member is still held here, and is no member any longer.
    let two = RULE.joins(&there).await;
    let read = RULE.gathers("another broker's member", &two, total(&spread)).await;
    RULE.in_place("another broker's member gets them", &read, &spread);
    drop(one);
    RULE.gives_nothing("nothing comes again", &two).await;
    RULE.same("it keeps them", two.assigned(), [0, 1]);
}

fn transient(error: &Error) -> bool {
    error.is_transient() && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// `stream-refused`: a member outlives interruptions: nothing committed comes again, nothing else is lost; out of reach
/// every operation fails as not applied.
pub async fn commit_interrupted<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("stream-refused");
    const ROUNDS: u64 = 3;
    let producer = RULE.entries(&subject).await;
    RULE.commits(&producer, "g").await;
    let stream = RULE.bound_with(&subject, limits().timeout(Duration::from_secs(2)));
    let group = RULE.unwrap("looking up", stream.commit_group("g"));
    let one = RULE.joins(&group).await;
    let mut done = Vec::new();
    for round in 0..ROUNDS {
        let waiting = async {
            // A read that waits fails, or outlives it.
            match one.read(ALL, AWHILE).await {
                Ok(read) => RULE.that(read.is_empty(), "nothing is there"),
                Err(error) => RULE.that(transient(&error), &format!("an interruption is transient, not {error}")),
            }
        };
        let interrupting = async {
            for _ in 0..3 {
                tokio::time::sleep(AWHILE / 4).await;
                subject.interrupt().await;
            }
        };
        RULE.within("an interruption", async { tokio::join!(waiting, interrupting) }).await;
        let n = 3 * round;
        RULE.eventually("the producer goes on", async || producer.append(&1, &Entry { n }).await.is_ok()).await;
        RULE.fill(&producer, n + 1..n + 3).await;
        RULE.within("reading on", async {
            while done.last() != Some(&(n + 2)) {
                let read = match one.read(ALL, SOON).await {
                    Ok(read) => read,
                    Err(error) if transient(&error) => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        continue;
                    }
                    Err(error) => panic!("stream-refused: reading on: {error:?}"),
                };
                for delivery in read {
                    done.push(RULE.number("reading on", &delivery));
                    RULE.eventually("committing goes on", async || one.commit([delivery.position()]).await.is_ok())
                        .await;
                }
            }
        })
        .await;
    }
    // An append whose answer was lost may be there twice.
    done.dedup();
    RULE.same("each in its order", done, (0..3 * ROUNDS).collect::<Vec<_>>());
    RULE.same("all is committed", RULE.behind_by(&group).await, [0]);

    let told = RULE.fill(&producer, 100..103).await;
    RULE.gives("reading", &one, 100..103).await;
    let fresh = RULE.bound_with(&subject, limits().timeout(Duration::from_millis(500)));
    let fresh = RULE.unwrap("looking up", fresh.commit_group("g"));
    subject.refuse(true).await;
    let failed = [
        RULE.fails("committing", one.commit([told[1]])).await,
        RULE.fails("asking", fresh.committed()).await,
        RULE.fails("counting", fresh.lag()).await,
        RULE.fails("recording", fresh.ensure(Start::Earliest)).await,
        RULE.fails("moving", fresh.reset_offsets(Start::Earliest)).await,
        RULE.fails("joining", fresh.join(MemberSettings::new())).await,
        RULE.fails("removing", fresh.delete()).await,
    ];
    for (index, error) in failed.iter().enumerate() {
        // What a connection took before it broke may have arrived.
        let outcomes = if index == 0 { &[Outcome::NotApplied, Outcome::Unknown][..] } else { &[Outcome::NotApplied] };
        RULE.that(outcomes.contains(&error.outcome()), &format!("the outcome out of reach of {error}"));
        RULE.that(error.is_transient(), &format!("out of reach must be transient, not {error}"));
    }
    match RULE.within("reading out of reach", one.read(ALL, SOON)).await {
        Ok(read) => RULE.that(read.is_empty(), "nothing comes out of reach"),
        Err(error) => RULE.that(transient(&error), &format!("out of reach must be transient, not {error}")),
    }
    subject.refuse(false).await;
    RULE.eventually("in reach again", async || fresh.committed().await.is_ok()).await;
    RULE.eventually("the control: committing", async || one.commit([told[1]]).await.is_ok()).await;
    RULE.committed_is("the control: committed", &fresh, 0, told[1]).await;
    RULE.eventually("the member goes back", async || one.seek_to_committed().await.is_ok()).await;
    let mut read = Vec::new();
    RULE.within("the member goes on", async {
        while read.last() != Some(&told[2]) {
            if let Ok(page) = one.read(ALL, SOON).await {
                read.extend(places(&page));
            }
        }
    })
    .await;
}

/// `stream-limits`: pages, names, times and groups have their bounds, and a read has a place among the operations.
pub async fn commit_limits<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("stream-limits");
    const MINUTES: Duration = Duration::from_mins(5);
    let stream = RULE.bound_with(&subject, limits().read_records(5).groups(2));
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let group = RULE.commits(&stream, "g").await;
    RULE.fill(&stream, 0..7).await;
    let one = RULE.joins(&group).await;
    RULE.drive("it gets the partition", &[&one], |_| true).await;
    for max in [0, 6, usize::MAX] {
        let refused = RULE.fails("a page out of bounds", one.read(max, SOON)).await;
        RULE.refused("a page out of bounds", &refused, ErrorKind::Invalid);
    }
    let mut read = Vec::new();
    for max in [1, 5] {
        let page = RULE.within("a page", async {
            loop {
                let page = RULE.ok("a page", one.read(max, SOON)).await;
                if !page.is_empty() {
                    return page;
                }
            }
        });
        let page = page.await;
        RULE.that(page.len() <= max, "a page holds at most what was asked for");
        read.extend(places(&page));
    }
    // It has as many pages as it takes.
    let mut tail = one.tail();
    while read.len() < 7 {
        read.push(RULE.ok("tailing", tail.receive()).await.position());
    }
    RULE.that(give_up(tail.receive(), 50).await.is_none(), "a tail waits while there is nothing");
    RULE.same("a tail takes no place", stream.broker().stats().operations, 0);
    drop(tail);
    let mut waiting = Box::pin(one.read(1, LONG));
    RULE.that(give_up(waiting.as_mut(), 50).await.is_none(), "a read waits while there is nothing");
    RULE.same("a read takes a place", stream.broker().stats().operations, 1);
    drop(waiting);
    RULE.eventually("until it is dropped", async || stream.broker().stats().operations == 0).await;
    let began = tokio::time::Instant::now();
    let nothing = RULE.ok("reading", one.read(1, AWHILE)).await;
    RULE.that(nothing.is_empty() && began.elapsed() >= AWHILE / 2, "a read waits as long as asked");
    RULE.that(began.elapsed() < AWHILE + PATIENCE / 2, "a read waits no longer than asked");
    RULE.within("leaving", one.leave()).await;

    RULE.unwrap("the second group", stream.commit_group("h"));
    RULE.unwrap("the same again", stream.commit_group("g"));
    let refused = RULE.unwrap_err("a group too many", stream.commit_group("i"));
    RULE.refused("a group too many", &refused, ErrorKind::Overloaded);

    let group = RULE.elsewhere(&subject, "g");
    for good in [Duration::ZERO, MINUTES] {
        let settings = MemberSettings::new().hand_over(good);
        RULE.within("leaving", RULE.ok("a time at its bound", group.join(settings)).await.leave()).await;
    }
    for bad in [MINUTES + Duration::from_nanos(1), Duration::MAX] {
        let refused = RULE.fails("a time out of bounds", group.join(MemberSettings::new().hand_over(bad))).await;
        RULE.refused("a time out of bounds", &refused, ErrorKind::Invalid);
        RULE.that(refused.to_string().contains("`hand_over`"), "the setting is named");
    }
    let long = "x".repeat(127);
    let other = RULE.bound(&subject);
    for name in ["0", "a_b-9", &long] {
        RULE.unwrap("a good name", other.commit_group(name));
    }
    let over = format!("{long}x");
    for name in ["", ".", "..", "A", "a.b", "a b", "a*b", "a/b", "-a", "_a", "ü", "{a}", &over] {
        let refused = RULE.unwrap_err("a bad name", other.commit_group(name));
        RULE.refused(&format!("the group `{name}`"), &refused, ErrorKind::Invalid);
        let refused = RULE.fails("a bad name", group.join(MemberSettings::new().name(name))).await;
        RULE.refused(&format!("the member `{name}`"), &refused, ErrorKind::Invalid);
    }
    let both = MemberSettings::new().name("A").hand_over(Duration::MAX);
    let refused = RULE.fails("two bad settings", group.join(both)).await.to_string();
    RULE.that(refused.contains("`hand_over`") && refused.contains("`A`"), "every bad setting is named");
    // What was refused has joined nothing.
    RULE.ok("nobody is in the group", group.reset_offsets(Start::Earliest)).await;
    // Long names that are equal in their first half are two groups.
    for end in ["a", "b"] {
        let group = RULE.unwrap("a long name", other.commit_group(&format!("{}{end}", "x".repeat(100))));
        RULE.that(RULE.ok("recording", group.ensure(Start::Earliest)).await, "a group of its own");
        let one = RULE.joins(&group).await;
        let read = RULE.gives("all of them", &one, 0..7).await;
        RULE.ok("committing", one.commit(places(&read))).await;
    }
}
