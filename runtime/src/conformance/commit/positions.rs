use std::time::Duration;

use super::steps::{AWHILE, SOON, after, last, nth, total};
use crate::capability::CommitGroups;
use crate::conformance::rule::Rule;
use crate::conformance::streams::steps::{ALL, LONG, places};
use crate::conformance::{Raw, Streams, Subject};
use crate::error::{ErrorKind, Operation};
use crate::stream::{Position, Start, StreamSettings};

/// `commit-high-water`: a committed position acknowledges all up to it on its partition; of several the highest counts,
/// and none moves it back.
pub async fn commit_high_water<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-high-water");
    let stream = RULE.entries(&subject).await;
    let group = RULE.commits(&stream, "g").await;
    let far = RULE.elsewhere(&subject, "g");
    let told = RULE.fill(&stream, 0..10).await;
    RULE.committed_is("nothing yet", &far, 0, None).await;
    let one = RULE.joins(&group).await;
    RULE.gives("reading", &one, 0..10).await;
    RULE.committed_is("reading commits nothing", &far, 0, None).await;
    RULE.ok("committing nothing", one.commit([])).await;
    RULE.committed_is("nothing was committed", &far, 0, None).await;
    // Elsewhere at once, as soon as it returns.
    RULE.ok("committing", one.commit([told[0]])).await;
    RULE.committed_is("the very first record", &far, 0, told[0]).await;
    RULE.ok("committing", one.commit([told[4], told[2], told[3], told[4]])).await;
    RULE.committed_is("the highest of several", &far, 0, told[4]).await;
    RULE.ok("committing", one.commit([told[1]])).await;
    RULE.ok("committing", one.commit([told[4]])).await;
    RULE.committed_is("never backwards", &far, 0, told[4]).await;
    RULE.ok("committing", one.commit([told[6]])).await;
    RULE.committed_is("the control: forwards", &far, 0, told[6]).await;
    RULE.same("what isn't acknowledged", RULE.behind_by(&group).await, [3]);

    // What this member wasn't given it can't acknowledge, for that would skip records in silence.
    let more = RULE.fill(&stream, [10, 11]).await;
    for beyond in [more[0], more[1], Position::new(0, told[9].offset() + 1_000_000)] {
        let refused = RULE.fails("committing beyond what was read", one.commit([told[8], beyond])).await;
        RULE.refused("committing beyond what was read", &refused, ErrorKind::Invalid);
        RULE.same("the operation", refused.operation(), Operation::Settle);
    }
    // Nor a partition that the stream doesn't have, which was never anyone's.
    let strange = RULE.fails("a partition that isn't there", one.commit([told[8], Position::new(1, 0)])).await;
    RULE.refused("a partition that isn't there", &strange, ErrorKind::Invalid);
    RULE.that(strange.to_string().contains("no such partition"), "it says that there is no such partition");
    RULE.committed_is("what was refused", &far, 0, told[6]).await;

    // The next member begins right after it: none twice, none left out.
    RULE.within("leaving", one.leave()).await;
    let two = RULE.joins(&far).await;
    // Before it is given anything, and at or before what is committed, which changes nothing.
    RULE.drive("it gets the partition", &[&two], |_| two.assigned() == [0]).await;
    RULE.ok("committing what is committed", two.commit([told[2]])).await;
    RULE.committed_is("never backwards, by another", &group, 0, told[6]).await;
    RULE.ok("going back", two.seek_to_committed()).await;
    let read = RULE.gives("the next member", &two, 7..12).await;
    RULE.ok("committing", two.commit(places(&read))).await;
    RULE.committed_is("everything", &group, 0, more[1]).await;
    RULE.same("nothing is left", RULE.behind_by(&group).await, [0]);
    RULE.gives_nothing("nothing is left", &two).await;
    RULE.within("leaving", two.leave()).await;

    several_partitions::<S>(&subject).await;
}

async fn several_partitions<S: Streams<Backend: CommitGroups>>(subject: &S) {
    const RULE: Rule = Rule("commit-high-water");
    let stream = RULE.bound(subject);
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(3))).await;
    let group = RULE.commits(&stream, "wide").await;
    let spread = RULE.spread::<S>(&stream, 3, 6).await;
    let one = RULE.joins(&group).await;
    let read = RULE.gathers("reading", &one, total(&spread)).await;
    RULE.in_place("every partition in its order", &read, &spread);
    // The highest of each partition wins, in one call and whatever the order.
    let mut mixed = nth(&spread, &[0, 1, 2], 1);
    mixed.extend(nth(&spread, &[2, 1], 3));
    mixed.extend(nth(&spread, &[1, 2, 0], 2));
    RULE.ok("committing", one.commit(mixed)).await;
    let committed = RULE.committed(&group).await;
    let expected: Vec<_> = [(0, 2), (1, 3), (2, 3)].map(|(partition, index)| spread[&partition][index].1).into();
    RULE.same("the highest of each partition", committed.iter().collect::<Vec<_>>(), expected);
    RULE.within("leaving", one.leave()).await;
    let two = RULE.joins(&group).await;
    let mut left = after(&spread, &[0], 3);
    left.extend(after(&spread, &[1, 2], 4));
    let read = RULE.gathers("the next member", &two, total(&left)).await;
    RULE.in_place("each partition right after it", &read, &left);
    RULE.ok("committing", two.commit(last(&spread, &[0, 1, 2]))).await;
    RULE.same("nothing is left", RULE.behind_by(&group).await, [0, 0, 0]);
}

/// `commit-rewind`: going back undoes what was read and isn't committed: it comes again.
pub async fn commit_rewind<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-rewind");
    let stream = RULE.entries(&subject).await;
    let group = RULE.commits(&stream, "g").await;
    let told = RULE.fill(&stream, 0..6).await;
    let one = RULE.joins(&group).await;
    // Before anything was read, and before it has a partition, perhaps (F14).
    RULE.ok("going back before the first read", one.seek_to_committed()).await;
    RULE.gives("the first read", &one, 0..6).await;
    RULE.ok("going back, nothing committed", one.seek_to_committed()).await;
    RULE.gives("from the first record", &one, 0..6).await;
    RULE.gives_nothing("the control: without going back", &one).await;
    RULE.ok("committing", one.commit([told[1]])).await;
    for _ in 0..2 {
        RULE.ok("going back", one.seek_to_committed()).await;
        RULE.gives("what isn't committed", &one, 2..6).await;
    }
    RULE.committed_is("going back commits nothing", &group, 0, told[1]).await;
    RULE.ok("committing", one.commit([told[5]])).await;
    RULE.ok("going back, all committed", one.seek_to_committed()).await;
    RULE.gives_nothing("all is committed", &one).await;
    RULE.fill(&stream, [6]).await;
    RULE.gives("the next", &one, [6]).await;

    // A tail forgets what it had read ahead.
    RULE.fill(&stream, 7..12).await;
    let mut tail = one.tail();
    for n in [7, 8, 9] {
        let next = RULE.ok("tailing", tail.receive()).await;
        RULE.same("tailing", RULE.number("tailing", &next), n);
    }
    RULE.ok("going back", one.seek_to_committed()).await;
    for n in 6..9 {
        let next = RULE.ok("tailing on", tail.receive()).await;
        RULE.same("tailing on from what is committed", RULE.number("tailing on", &next), n);
        RULE.ok("committing", one.commit([next.position()])).await;
    }
    RULE.ok("going back", one.seek_to_committed()).await;
    for n in 9..12 {
        let next = RULE.ok("tailing on", tail.receive()).await;
        RULE.same("tailing on from what is committed", RULE.number("tailing on", &next), n);
    }
    drop(tail);

    // A read and a tail that wait get them, too.
    for tails in [false, true] {
        let mut tail = one.tail();
        let waiting = async {
            if tails {
                let mut read = Vec::new();
                while read.len() < 3 {
                    read.push(RULE.ok("a tail that waits", tail.receive()).await);
                }
                read
            } else {
                let mut read = RULE.ok("a read that waits", one.read(ALL, LONG)).await;
                while read.len() < 3 {
                    read.extend(RULE.ok("reading on", one.read(ALL, LONG)).await);
                }
                read
            }
        };
        let back = async {
            tokio::time::sleep(SOON).await;
            RULE.ok("going back under a read", one.seek_to_committed()).await;
        };
        let (read, ()) = RULE.within("a read that waits", async { tokio::join!(waiting, back) }).await;
        RULE.same("what a read that waits gets", RULE.numbers("a read that waits", &read), [9, 10, 11]);
    }

    // Each partition to its own.
    RULE.within("leaving", one.leave()).await;
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(2))).await;
    let group = RULE.commits(&stream, "wide").await;
    let spread = RULE.spread::<S>(&stream, 2, 4).await;
    let one = RULE.joins(&group).await;
    RULE.gathers("reading", &one, total(&spread)).await;
    RULE.ok("committing", one.commit(nth(&spread, &[1], 2))).await;
    RULE.ok("going back", one.seek_to_committed()).await;
    let mut left = after(&spread, &[0], 0);
    left.extend(after(&spread, &[1], 3));
    let read = RULE.gathers("each partition again", &one, total(&left)).await;
    RULE.in_place("each partition from where it is committed", &read, &left);
}

/// `poison-in-place`: a record that doesn't decode comes in its place and is committed like any other.
pub async fn commit_poison<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("poison-in-place");
    let stream = RULE.entries(&subject).await;
    let group = RULE.commits(&stream, "g").await;
    RULE.fill(&stream, [1]).await;
    let poison = Raw::new(&b"\xff no JSON"[..]).attribute("partitionkey", "9");
    RULE.within("appending past the backend", subject.append_raw(stream.address(), 0, poison)).await;
    RULE.fill(&stream, [3]).await;
    let one = RULE.joins(&group).await;
    let read = RULE.gathers("reading", &one, 3).await;
    RULE.same("its neighbours", [&read[0], &read[2]].map(|one| RULE.number("a neighbour", one)), [1, 3]);
    RULE.that(read[1].value().is_err(), "poison must not decode");
    RULE.same("its bytes", &read[1].data()[..], b"\xff no JSON");
    RULE.same("its key and attempt", (read[1].key().ok(), read[1].attempt()), (Some(9), 1));
    RULE.ok("going back", one.seek_to_committed()).await;
    let mut tail = one.tail();
    let first = RULE.ok("tailing", tail.receive()).await;
    RULE.same("tailing", RULE.number("tailing", &first), 1);
    let second = RULE.ok("tailing", tail.receive()).await;
    RULE.that(second.value().is_err() && second.position() == read[1].position(), "a tail gives it in its place");
    RULE.ok("committing", one.commit([read[1].position()])).await;
    drop(tail);
    RULE.ok("going back", one.seek_to_committed()).await;
    RULE.gives("the control: its neighbour", &one, [3]).await;
}

/// `commit-fan-out`: each group gets everything and commits for itself; plain reads are unaffected.
pub async fn commit_fan_out<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-fan-out");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..8).await;
    let (g, h) = (RULE.commits(&stream, "g").await, RULE.commits(&stream, "h").await);
    let (one, two) = (RULE.joins(&g).await, RULE.joins(&h).await);
    RULE.gives("a group", &one, 0..8).await;
    RULE.ok("committing", one.commit([told[5]])).await;
    RULE.gives("another group", &two, 0..8).await;
    RULE.committed_is("what one group commits", &g, 0, told[5]).await;
    RULE.committed_is("is nothing to another", &h, 0, None).await;
    RULE.ok("committing", two.commit([told[1]])).await;
    RULE.committed_is("nor back", &g, 0, told[5]).await;
    RULE.reads("a plain read", &stream, Start::Earliest, 0..8).await;
    RULE.same("their lags", (RULE.behind_by(&g).await, RULE.behind_by(&h).await), (vec![2], vec![6]));
    RULE.ok("going back", one.seek_to_committed()).await;
    RULE.ok("going back", two.seek_to_committed()).await;
    RULE.gives("each from its own", &one, 6..8).await;
    RULE.gives("each from its own", &two, 2..8).await;
    // Of what comes, too.
    RULE.fill(&stream, [8]).await;
    RULE.gives("what comes", &one, [8]).await;
    RULE.gives("what comes", &two, [8]).await;
    RULE.reads("a plain read", &stream, told[7], [8]).await;
}

/// `commit-kept`: a membership needs no reading: a member that handles for long keeps its partitions and can commit (F16).
pub async fn commit_kept<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-kept");
    let long = if <S as Subject>::PAUSED { Duration::from_hours(1) } else { Duration::from_secs(4) };
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(2)).await;
    let group = RULE.commits(&stream, "g").await;
    let spread = RULE.spread::<S>(&stream, 2, 3).await;
    let one = RULE.joins(&group).await;
    RULE.gathers("reading", &one, total(&spread)).await;
    tokio::time::sleep(long).await;
    RULE.same("its partitions after a long time", one.assigned(), [0, 1]);
    RULE.ok("committing after a long time", one.commit(last(&spread, &[0, 1]))).await;
    RULE.same("nothing is left", RULE.behind_by(&group).await, [0, 0]);
    RULE.gives_nothing("nothing comes again", &one).await;
    let more = RULE.fill(&stream, [77]).await;
    RULE.same("the control: it goes on", places(&RULE.gathers("reading on", &one, 1).await), &more[..]);
    // An idle one, too, and it doesn't hold up others.
    tokio::time::sleep(AWHILE).await;
    RULE.within("leaving", one.leave()).await;
    let two = RULE.joins(&group).await;
    RULE.same("uncommitted", places(&RULE.gathers("the next member", &two, 1).await), &more[..]);
}
