use std::collections::BTreeSet;
use std::time::Duration;

use super::steps::{ALL, HOUR, LONG, all, give_up, places};
use super::{Raw, Streams};
use crate::capability::AckGroups;
use crate::conformance::rule::Rule;
use crate::stream::{Position, Start, StreamSettings};

/// `ack-competing`: each entry goes to one consumer of a group; other groups and plain reads are unaffected.
pub async fn ack_competing<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-competing");
    let stream = RULE.entries(&subject).await;
    let there = RULE.bound(&subject);
    let (g, h) = (RULE.group::<S>(&stream, "g").await, RULE.group::<S>(&stream, "h").await);
    let told = RULE.fill(&stream, 0..30).await;
    let far = RULE.unwrap("looking up", there.ack_group("g"));
    let members = [RULE.consumer(&g, "a"), RULE.consumer(&g, "b"), RULE.consumer(&far, "c")];
    let (mut taken, mut idle) = (Vec::new(), 0);
    while idle < members.len() {
        idle = 0;
        let reads: Vec<_> = members.iter().map(|member| member.read(3, Duration::ZERO)).collect();
        for read in RULE.within("reading at once", all(reads)).await {
            let read = RULE.unwrap("reading at once", read);
            RULE.that(read.len() <= 3, "at most what was asked for");
            RULE.that(read.iter().all(|delivery| delivery.attempt() == 1), "the first attempt");
            idle += usize::from(read.is_empty());
            taken.extend(places(&read));
        }
    }
    taken.sort_by_key(|position| position.offset());
    RULE.same("each entry to one consumer", &taken, &told);
    RULE.takes("another group", &RULE.consumer(&h, "a"), 100, 0..30).await;
    RULE.reads("a plain read", &there, Start::Earliest, 0..30).await;

    // Those who wait at once: each entry wakes one of them.
    let reads: Vec<_> = members.iter().map(|member| member.read(1, LONG)).collect();
    let appending = async {
        RULE.eventually("they wait", async || {
            stream.broker().stats().operations == 2 && there.broker().stats().operations == 1
        })
        .await;
        RULE.fill(&RULE.bound(&subject), 30..33).await;
    };
    let (reads, ()) = RULE.within("waiting at once", async { tokio::join!(all(reads), appending) }).await;
    let mut numbers: Vec<_> = reads
        .into_iter()
        .flat_map(|read| RULE.numbers("waiting at once", &RULE.unwrap("waiting at once", read)))
        .collect();
    numbers.sort_unstable();
    RULE.same("each to one of those who waited", numbers, [30, 31, 32]);

    // In order, from each of several partitions.
    let wide = RULE.unwrap("binding", super::entries::Other::stream(stream.broker()));
    RULE.ok("creating the stream", wide.ensure(StreamSettings::new().partitions(3))).await;
    let group = RULE.unwrap("looking up", wide.ack_group("g"));
    RULE.ok("creating", group.ensure(Start::Earliest)).await;
    let mut told = BTreeSet::new();
    for n in 0..30 {
        let receipt = RULE.ok("appending", wide.append(&n, &super::entries::Other { n })).await;
        told.insert(RULE.stored("appending", receipt).to_string());
    }
    let consumer = RULE.unwrap("making a consumer", group.consumer("one"));
    let mut read: Vec<Position> = Vec::new();
    while read.len() < told.len() {
        let page = RULE.ok("reading", consumer.read(7, Duration::from_millis(200))).await;
        RULE.that(!page.is_empty(), "every partition is read");
        read.extend(places(&page));
    }
    for partition in 0..3 {
        let own: Vec<_> = read.iter().filter(|position| position.partition() == partition).collect();
        RULE.that(own.windows(2).all(|pair| pair[0] < pair[1]), "a partition's entries come in their order");
    }
    let texts: BTreeSet<_> = read.iter().map(ToString::to_string).collect();
    RULE.same("every entry once", (texts, read.len()), (told, 30));
}

/// `ack-recorded`: an acknowledgement is recorded when it returns, with the count of those that were pending.
pub async fn ack_recorded<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-recorded");
    let stream = RULE.entries(&subject).await;
    let there = RULE.bound(&subject);
    let group = RULE.group::<S>(&stream, "g").await;
    let far = RULE.unwrap("looking up", there.ack_group("g"));
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&far, "two"));
    let told = RULE.fill(&stream, 0..20).await;
    RULE.takes("reading", &one, 15, 0..15).await;
    let left = async || {
        let pending = RULE.ok("listing", far.pending(None, ALL)).await;
        pending.iter().map(|entry| entry.position).collect::<Vec<_>>()
    };
    // One from the middle, which settles no other.
    RULE.same("one", RULE.ok("acknowledging", one.ack([told[7]])).await, 1);
    RULE.same("elsewhere at once", left().await, [&told[..7], &told[8..15]].concat());
    RULE.same("once more", RULE.ok("acknowledging", one.ack([told[7]])).await, 0);
    // Twice in one call, not delivered yet, and not there at all.
    let odd = [told[0], told[0], told[1], told[7], told[16], Position::new(0, u128::MAX), Position::new(900, 1)];
    RULE.same("some of them", RULE.ok("acknowledging", group.ack(odd)).await, 2);
    RULE.same("elsewhere at once", left().await, [&told[2..7], &told[8..15]].concat());
    // What isn't delivered can't be acknowledged in advance.
    RULE.takes("what is new", &two, 10, 15..20).await;
    // Of what many acknowledge at once, each is counted for one of them.
    let calls = [&told[2..6], &told[4..7], &told[2..4], &told[15..18], &told[16..20]];
    let acks: Vec<_> = calls
        .iter()
        .zip([&one, &one, &two, &two, &one])
        .map(|(positions, by)| by.ack(positions.iter().copied()))
        .collect();
    let counts: Vec<_> = RULE.within("many at once", all(acks)).await;
    let counts: Vec<_> = counts.into_iter().map(|count| RULE.unwrap("many at once", count)).collect();
    let within = counts.iter().zip(calls).all(|(count, positions)| *count <= positions.len() as u64);
    RULE.that(within, &format!("each its own count, not {counts:?}"));
    RULE.same("all counts", counts.iter().sum::<u64>(), 10);
    RULE.same("what is left", left().await, &told[8..15]);

    // Settled is settled: nobody gets it again. What isn't, does.
    let all = RULE.ok("claiming", two.claim(Duration::ZERO, ALL)).await;
    RULE.same("what can be claimed", RULE.numbers("claiming", &all.deliveries), (8..15).collect::<Vec<_>>());
    // It isn't fenced: the old owner settles for the new one, whose own counts 0.
    RULE.same("by the old owner", RULE.ok("acknowledging", one.ack([told[8]])).await, 1);
    RULE.same("by the new owner", RULE.ok("acknowledging", two.ack([told[8]])).await, 0);
    RULE.same("the control: the next by the new owner", RULE.ok("acknowledging", two.ack([told[9]])).await, 1);
    // In another group everything is still to be done.
    let other = RULE.group::<S>(&stream, "h").await;
    RULE.takes("another group", &RULE.consumer(&other, "one"), 100, 0..20).await;
    RULE.same("for another group", RULE.ok("acknowledging", other.ack([told[7], told[8]])).await, 2);
}

/// `ack-pending`: what is pending is listed with position, consumer, idle time and attempt, the oldest first, in pages.
pub async fn ack_pending<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-pending");
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"));
    let told = RULE.fill(&stream, 0..9).await;
    RULE.same("nothing is pending", RULE.ok("listing", group.pending(None, 10)).await, []);
    for (consumer, from) in [(&one, 0), (&two, 2), (&one, 4), (&two, 6)] {
        RULE.takes("reading", consumer, 2, from..from + 2).await;
    }
    for max in [1, 3, 8, 9] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = RULE.ok("listing", group.pending(after, max)).await;
            RULE.that(page.len() <= max, "a page holds at most what was asked for");
            let Some(last) = page.last() else { break };
            after = Some(last.position);
            listed.extend(page);
        }
        let positions: Vec<_> = listed.iter().map(|entry| entry.position).collect();
        RULE.same(&format!("pages of {max}, oldest first"), &positions[..], &told[..8]);
        let consumers: Vec<_> = listed.iter().map(|entry| &*entry.consumer).collect();
        RULE.same("whose they are", consumers, ["one", "one", "two", "two", "one", "one", "two", "two"]);
        RULE.that(listed.iter().all(|entry| entry.attempt == 1), "each was delivered once");
        RULE.that(listed.iter().all(|entry| entry.idle < HOUR), "nothing has been idle for an hour");
    }
    RULE.idles(&group, Duration::from_millis(20)).await;
    // A redelivery counts and starts the clock anew.
    RULE.claims("taking over", &two, Duration::ZERO, 1, [0]).await;
    let listed = RULE.ok("listing", group.pending(None, 2)).await;
    RULE.same("taken over", (&*listed[0].consumer, listed[0].attempt), ("two", 2));
    RULE.that(listed[0].idle < listed[1].idle, "a redelivery starts the clock anew");
    RULE.ok("acknowledging", one.ack([told[0], told[3]])).await;
    let listed = RULE.ok("listing", group.pending(None, 10)).await;
    RULE.same("without what is settled", listed.len(), 6);
}

/// `ack-pending`: a consumer's history is its own pending entries, redelivered in order and counted.
pub async fn history<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-history");
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"));
    let told = RULE.fill(&stream, 0..10).await;
    let own = RULE.ok("history", one.history(None, 10)).await;
    RULE.that(own.deliveries.is_empty() && own.lost.is_empty(), "nothing was delivered yet");
    RULE.takes("reading", &one, 3, 0..3).await;
    RULE.takes("reading", &two, 2, 3..5).await;
    RULE.takes("reading", &one, 3, 5..8).await;
    RULE.ok("acknowledging", one.ack([told[1]])).await;

    // As after a crash: the same name on another broker.
    let again = RULE.bound(&subject);
    let again = RULE.consumer(&RULE.unwrap("looking up", again.ack_group("g")), "one");
    for attempt in [2, 3] {
        let (mut numbers, mut after) = (Vec::new(), None);
        loop {
            let page = RULE.ok("history", again.history(after, 2)).await;
            RULE.same("nothing was lost", page.lost, Vec::<Position>::new());
            let Some(last) = page.deliveries.last() else { break };
            after = Some(last.position());
            let attempts: Vec<_> = page.deliveries.iter().map(crate::Delivery::attempt).collect();
            RULE.same("a redelivery counts once", attempts, vec![attempt; page.deliveries.len()]);
            numbers.extend(RULE.numbers("history", &page.deliveries));
        }
        RULE.same("one's own, in order", numbers, [0, 2, 5, 6, 7]);
    }
    let own = RULE.ok("history", again.history(Some(told[5]), 10)).await;
    RULE.same("after a position", RULE.numbers("history", &own.deliveries), [6, 7]);
    let own = RULE.ok("history", two.history(None, 10)).await;
    RULE.same("the other's", RULE.numbers("history", &own.deliveries), [3, 4]);
    let attempts: Vec<_> = own.deliveries.iter().map(crate::Delivery::attempt).collect();
    RULE.same("the other's attempts", attempts, [2, 2]);
    RULE.takes("the control: what is new", &again, 10, 8..10).await;

    // What was removed while it was pending is told, once.
    let short = RULE.unwrap("binding", super::entries::EntryV2::stream(stream.broker()));
    RULE.ok("creating the stream", short.ensure(StreamSettings::new())).await;
    let group = RULE.unwrap("looking up", short.ack_group("g"));
    RULE.ok("creating", group.ensure(Start::Earliest)).await;
    RULE.ok("removing", short.delete()).await;
    let gone = RULE.fails("history of no stream", RULE.unwrap("naming", group.consumer("one")).history(None, 1)).await;
    RULE.same("history of no stream", gone.kind(), crate::ErrorKind::Absent);
}

/// `poison-in-place`: an entry that doesn't decode is delivered, redelivered and settled like any other.
pub async fn ack_poison<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("poison-in-place");
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"));
    RULE.fill(&stream, [1]).await;
    let poison = Raw::new(&b"\xff no JSON"[..]).attribute("partitionkey", "9");
    RULE.within("appending past the backend", subject.append_raw(stream.address(), 0, poison)).await;
    RULE.fill(&stream, [3]).await;
    let read = RULE.ok("reading", one.read(10, Duration::ZERO)).await;
    let own = RULE.ok("history", one.history(None, 10)).await.deliveries;
    let claimed = RULE.ok("claiming", two.claim(Duration::ZERO, 10)).await.deliveries;
    for (deliveries, attempt) in [(&read, 1), (&own, 2), (&claimed, 3)] {
        RULE.same("all of them", deliveries.len(), 3);
        RULE.same(
            "its neighbours",
            [&deliveries[0], &deliveries[2]].map(|one| RULE.number("a neighbour", one)),
            [1, 3],
        );
        let poison = &deliveries[1];
        RULE.that(poison.value().is_err(), "poison must not decode");
        RULE.same("its bytes", &poison.data()[..], b"\xff no JSON");
        RULE.same("its key and attempt", (poison.key().ok(), poison.attempt()), (Some(9), attempt));
    }
    RULE.same("settled like others", RULE.ok("acknowledging", two.ack([read[1].position()])).await, 1);
    RULE.claims("the control: the neighbours", &one, Duration::ZERO, 10, [1, 3]).await;
}

/// `ack-depth`: what is pending and what isn't read is counted; unknown is not zero.
pub async fn ack_depth<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-depth");
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(2)).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    let count = async |what: &str, pending: u64, unread: u64| {
        let depth = RULE.ok("counting", group.depth()).await;
        RULE.same(&format!("pending {what}"), depth.pending, pending);
        let right = depth.unread.is_none_or(|counted| counted == unread);
        RULE.that(right, &format!("unread {what}: got {:?}, not {unread}", depth.unread));
    };
    count("at first", 0, 0).await;
    let mut told = Vec::new();
    for n in 0..10 {
        let receipt = RULE.ok("appending", stream.append(&n, &super::entries::Entry { n })).await;
        told.push(RULE.stored("appending", receipt));
    }
    count("after ten appends", 0, 10).await;
    let read = RULE.ok("reading", one.read(4, Duration::ZERO)).await;
    let more = RULE.ok("reading", one.read(10, Duration::ZERO)).await;
    RULE.same("read", read.len() + more.len(), 10);
    count("after reading", 10, 0).await;
    RULE.ok("acknowledging", one.ack(places(&read))).await;
    count("after acknowledging", more.len() as u64, 0).await;
    RULE.ok("appending", stream.append(&1, &super::entries::Entry { n: 11 })).await;
    count("after one more", more.len() as u64, 1).await;
    RULE.ok("acknowledging", one.ack(places(&more))).await;
    count("after all", 0, 1).await;
}

/// `read-cancelled`: of a group's reads that are dropped at any step nothing is lost: what they were being handed is
/// given back.
pub async fn ack_cancelled<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("read-cancelled");
    const ROUNDS: u64 = 60;
    let stream = RULE.entries(&subject).await;
    let producer = RULE.bound(&subject);
    let group = RULE.group::<S>(&stream, "g").await;
    let (gone, stays) = (RULE.consumer(&group, "gone"), RULE.consumer(&group, "stays"));
    let mut seen = Vec::new();
    let mut tail = RULE.consumer(&group, "tail").tail(false);
    for n in 0..ROUNDS {
        for wait in [LONG, Duration::ZERO] {
            if let Some(read) = give_up(gone.read(2, wait), n % 15).await {
                seen.extend(RULE.numbers("a read that was done", &RULE.unwrap("reading", read)));
            }
            RULE.fill(&producer, [n]).await;
        }
        if let Some(next) = give_up(tail.receive(), n % 7).await {
            seen.push(RULE.number("following", &RULE.unwrap("following", next)));
        }
    }
    drop(tail);
    RULE.eventually("dropped reads are over", async || stream.broker().stats().operations == 0).await;
    // What nobody was handed is new, what was given back can be claimed at once. Only what a tail had read ahead is
    // left to its own history.
    let ahead = RULE.ok("history", RULE.consumer(&group, "tail").history(None, ALL)).await;
    let mut taken: Vec<_> = RULE.numbers("read ahead", &ahead.deliveries);
    taken.extend(&seen);
    let mut taken: BTreeSet<_> = taken.into_iter().collect();
    let all: BTreeSet<_> = (0..ROUNDS).collect();
    RULE.within("nothing is lost", async {
        while taken != all {
            let new = RULE.ok("reading", stays.read(ALL, Duration::from_millis(5))).await;
            taken.extend(RULE.numbers("what is new", &new));
            let back = RULE.ok("claiming", stays.claim(HOUR, ALL)).await;
            taken.extend(RULE.numbers("what was given back", &back.deliveries));
        }
    })
    .await;
    // Each is pending for one consumer, and for no other.
    let pending = RULE.ok("listing", group.pending(None, ALL)).await;
    let positions: BTreeSet<_> = pending.iter().map(|entry| entry.position.offset()).collect();
    RULE.same("each pending once", positions.len(), pending.len());
}
