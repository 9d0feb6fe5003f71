use std::time::Duration;

use super::Streams;
use super::entries::{Entry, EntryV2, Other};
use super::steps::{Entries, HOUR, LONG, all, later, parted, places};
use crate::capability::{AckGroups, partition_of};
use crate::conformance::rule::Rule;
use crate::error::{ErrorKind, Operation};
use crate::stream::{Position, Start, Storage, StreamSettings};

/// Settings of three partitions and whatever the system keeps; what it can't have it must refuse.
async fn settings_of<S: Streams>(rule: Rule, stream: &Entries<S>) -> StreamSettings {
    let mut settings = parted::<S>(3);
    let wide = settings.clone().partitions((S::PARTITIONS + 1).min(1_024));
    let counted = settings.clone().max_len(1_000_000);
    let remembered = settings.clone().dedup_window(Duration::from_mins(1));
    let parts = S::PARTITIONS >= wide.partitions;
    for (keeps, asked) in [(parts, &wide), (S::COUNTS, &counted), (S::REMEMBERS, &remembered)] {
        if !keeps {
            let refused = rule.fails("what the system doesn't keep", stream.ensure(asked.clone())).await;
            rule.refused("what the system doesn't keep", &refused, ErrorKind::Unsupported);
            let absent = rule.fails("reading", stream.read(Start::Earliest, 1, Duration::ZERO)).await;
            rule.refused("what was refused isn't created", &absent, ErrorKind::Absent);
        }
    }
    settings.max_len = counted.max_len.filter(|_| S::COUNTS);
    if S::REMEMBERS {
        settings.dedup_window = remembered.dedup_window;
    }
    settings
}

/// `stream-update`: a stream that is there can be changed where the system can; what doesn't fit goes, and nothing else.
pub async fn stream_update<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stream-update");
    let (stream, other) = (RULE.bound(&subject), RULE.bound(&subject));
    let (first, second) = (StreamSettings::new(), StreamSettings::new().max_age(Duration::from_hours(1)));
    if !S::UPDATES {
        RULE.ok("ensuring", stream.ensure(first.clone())).await;
        let refused = RULE.fails("changing", stream.update(second)).await;
        RULE.refused("changing what can't be changed", &refused, ErrorKind::Unsupported);
        RULE.same("the operation", refused.operation(), Operation::Update);
        RULE.ok("what was refused changes nothing", other.ensure(first)).await;
        return;
    }
    let absent = RULE.fails("changing no stream", stream.update(second.clone())).await;
    RULE.refused("changing no stream", &absent, ErrorKind::Absent);
    RULE.same("the operation", absent.operation(), Operation::Update);
    RULE.ok("ensuring", stream.ensure(first.clone())).await;
    for n in 0..10 {
        RULE.ok("appending", stream.append(&1, &Entry { n })).await;
    }
    RULE.ok("changing", other.update(second.clone())).await;
    RULE.ok("changing to what it is", other.update(second.clone())).await;
    let before = RULE.fails("ensuring what it was", stream.ensure(first)).await;
    RULE.refused("ensuring what it was", &before, ErrorKind::Conflict);
    RULE.ok("ensuring what it is", stream.ensure(second.clone())).await;
    RULE.same("what fits stays", RULE.read("reading", &stream, Start::Earliest).await.len(), 10);

    let bad = RULE.fails("bad settings", stream.update(second.clone().max_len(0))).await;
    RULE.refused("bad settings", &bad, ErrorKind::Invalid);
    let parts = RULE.fails("other partitions", stream.update(second.clone().partitions(2))).await;
    let kind = if S::PARTITIONS > 1 { ErrorKind::Conflict } else { ErrorKind::Unsupported };
    RULE.refused("other partitions", &parts, kind);
    if let [one, another] = S::STORAGES {
        let moved = RULE.within("another storage", async {
            [
                stream.update(second.clone().storage(*one)).await.is_ok(),
                stream.update(second.clone().storage(*another)).await.is_ok(),
            ]
        });
        RULE.same("storages that it may have", moved.await.into_iter().filter(|taken| *taken).count(), 1);
    }
    RULE.ok("what was refused changes nothing", stream.ensure(second.clone())).await;

    RULE.ok("keeping fewer", other.update(second.max_len(3))).await;
    RULE.ok("appending", stream.append(&1, &Entry { n: 10 })).await;
    RULE.same("what is kept", RULE.read("reading", &other, Start::Earliest).await.len(), 3);
}

/// `stream-ensure`: ensure creates a stream, once and for all processes; nothing else does, and nothing changes one.
pub async fn stream_ensure<S: Streams>(subject: S) {
    const RULE: Rule = Rule("stream-ensure");
    let stream = RULE.bound(&subject);
    let other = RULE.bound(&subject);
    let entry = Entry { n: 1 };
    // What isn't there is `Absent`, and stays so whatever is asked of it.
    for _ in 0..2 {
        let failed = [
            RULE.fails("appending to no stream", stream.append(&1, &entry)).await,
            RULE.fails("appending with an id", stream.append_with(crate::Append::new(&1, &entry).id("x"))).await,
            RULE.fails("reading no stream", stream.read(Start::Earliest, 1, Duration::ZERO)).await,
            RULE.fails("waiting for no stream", stream.read(Start::Earliest, 1, LONG)).await,
            RULE.fails("the latest of no stream", stream.read(Start::Latest, 1, Duration::ZERO)).await,
        ];
        for error in failed {
            RULE.refused("no stream", &error, ErrorKind::Absent);
            RULE.that(error.is_transient(), "what is absent may be there later");
        }
        for outcome in RULE.ok("a batch to no stream", stream.append_all([(&1, &entry)])).await {
            RULE.refused("no stream", &RULE.unwrap_err("a batch to no stream", outcome), ErrorKind::Absent);
        }
        RULE.same("removing no stream", RULE.ok("removing", stream.delete()).await, false);
    }

    let settings = settings_of::<S>(RULE, &stream).await;
    let brokers: Vec<_> = (0..6).map(|_| RULE.bound(&subject)).collect();
    let races: Vec<_> = brokers.iter().map(|stream| stream.ensure(settings.clone())).collect();
    for outcome in RULE.within("many at once", all(races)).await {
        RULE.unwrap("many at once", outcome);
    }
    // The number of partitions is the stream's own, which a process that never heard of it follows.
    for key in 0..10_u64 {
        let receipt = RULE.ok("appending", other.append(&key, &Entry { n: key })).await;
        let wanted = partition_of(key.to_string().as_bytes(), settings.partitions);
        RULE.same("the partition of a key", RULE.stored("appending", receipt).partition(), wanted);
    }
    RULE.ok("the same settings again", other.ensure(settings.clone())).await;
    RULE.ok("the same settings again", stream.ensure(settings.clone())).await;
    let mut others = vec![settings.clone().max_age(Duration::from_mins(1)), StreamSettings::new()];
    if S::PARTITIONS >= 4 {
        others.extend([settings.clone().partitions(2), settings.clone().partitions(4)]);
    }
    if S::COUNTS {
        others.push(settings.clone().max_len(5));
    }
    if S::REMEMBERS {
        others.push(settings.clone().dedup_window(Duration::from_mins(2)));
    }
    for different in others {
        let failed = RULE.fails("other settings", other.ensure(different)).await;
        RULE.refused("other settings", &failed, ErrorKind::Conflict);
        RULE.same("the operation", failed.operation(), Operation::Ensure);
        RULE.that(!failed.is_transient(), "a conflict doesn't pass by itself");
    }
    let left = RULE.read("reading", &other, Start::Earliest).await;
    RULE.same("ensuring changes nothing", left.len(), 10);

    let next = RULE.unwrap("binding", EntryV2::stream(stream.broker()));
    let copies = RULE.within("asking for copies", next.ensure(StreamSettings::new().replicas(2))).await;
    if S::COPIES {
        RULE.unwrap("asking for copies", copies);
        RULE.ok("removing", next.delete()).await;
    } else {
        let refused = RULE.unwrap_err("copies that nobody keeps", copies);
        RULE.refused("copies that nobody keeps", &refused, ErrorKind::Unsupported);
        let absent = RULE.fails("reading", next.read(Start::Earliest, 1, Duration::ZERO)).await;
        RULE.refused("what was refused isn't created", &absent, ErrorKind::Absent);
    }
    for storage in [Storage::File, Storage::Memory] {
        let stored = RULE.within("asking for a storage", next.ensure(StreamSettings::new().storage(storage))).await;
        if S::STORAGES.contains(&storage) {
            RULE.unwrap("asking for a storage", stored);
            RULE.ok("removing", next.delete()).await;
        } else {
            let refused = RULE.unwrap_err("a storage that isn't there", stored);
            RULE.refused("a storage that isn't there", &refused, ErrorKind::Unsupported);
        }
    }
    let bad = StreamSettings::new().partitions(0).max_len(0).max_age(Duration::ZERO).dedup_window(Duration::ZERO);
    let refused = RULE.fails("bad settings", next.ensure(bad.replicas(0))).await;
    RULE.refused("bad settings", &refused, ErrorKind::Invalid);
    let said = refused.to_string();
    for name in ["`partitions`", "`replicas`", "`max_len`", "`max_age`", "`dedup_window`"] {
        RULE.that(said.contains(name), &format!("every bad setting must be named, but `{said}` lacks {name}"));
    }

    // Removed, it is absent for all, and can be created otherwise.
    let others = RULE.unwrap("binding", Other::stream(stream.broker()));
    RULE.ok("creating another stream", others.ensure(StreamSettings::new())).await;
    RULE.ok("appending", others.append(&1, &Other { n: 1 })).await;
    RULE.same("removing", RULE.ok("removing", stream.delete()).await, true);
    RULE.same("removing again", RULE.ok("removing again", other.delete()).await, false);
    for stream in [&stream, &other] {
        let failed = RULE.fails("reading what was removed", stream.read(Start::Earliest, 1, Duration::ZERO)).await;
        RULE.refused("what was removed", &failed, ErrorKind::Absent);
        let failed = RULE.fails("appending to what was removed", stream.append(&1, &entry)).await;
        RULE.refused("what was removed", &failed, ErrorKind::Absent);
    }
    RULE.ok("creating it otherwise", other.ensure(StreamSettings::new())).await;
    RULE.reads("a new stream", &stream, Start::Earliest, []).await;
    RULE.fill(&stream, [5]).await;
    RULE.reads("a new stream", &other, Start::Earliest, [5]).await;
    let read = RULE.ok("the control: another stream", others.read(Start::Earliest, 10, Duration::ZERO)).await;
    RULE.same("the control: another stream", read.len(), 1);
}

/// `ack-group-ensure`: ensure creates a group, once among many; one that is there stays where it is.
pub async fn ack_group_ensure<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-group-ensure");
    let stream = RULE.bound(&subject);
    let group = RULE.unwrap("looking up", stream.ack_group("g"));
    let failed = RULE.fails("a group of no stream", group.ensure(Start::Earliest)).await;
    RULE.refused("a group of no stream", &failed, ErrorKind::Absent);
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;

    let brokers: Vec<_> = (0..8).map(|_| RULE.bound(&subject)).collect();
    let groups: Vec<_> = brokers.iter().map(|stream| RULE.unwrap("looking up", stream.ack_group("g"))).collect();
    let races: Vec<_> = groups.iter().map(|group| group.ensure(Start::Earliest)).collect();
    let created = RULE.within("many at once", all(races)).await;
    let created: Vec<_> = created.into_iter().map(|created| RULE.unwrap("many at once", created)).collect();
    RULE.same("those who created it", created.iter().filter(|created| **created).count(), 1);

    // Opened again, whatever the start: what was acknowledged, and what is pending, stays so.
    RULE.fill(&stream, 0..8).await;
    let one = RULE.consumer(&group, "one");
    let read = RULE.takes("reading", &one, 5, 0..5).await;
    RULE.same("acknowledging", RULE.ok("acknowledging", one.ack(places(&read[..3]))).await, 3);
    for start in [Start::Earliest, Start::Latest, Start::from(read[0].position())] {
        let created = RULE.ok("opening again", groups[3].ensure(start)).await;
        RULE.that(!created, "a group that is there isn't created");
    }
    let depth = RULE.ok("counting", group.depth()).await;
    RULE.same("what is pending", depth.pending, 2);
    RULE.takes("where it was", &one, 1, [5]).await;
    // The control: removed, it begins anew.
    RULE.same("removing", RULE.ok("removing", groups[1].delete()).await, true);
    RULE.same("removing again", RULE.ok("removing again", group.delete()).await, false);
    RULE.that(RULE.ok("creating anew", group.ensure(Start::Earliest)).await, "a group that was removed is created");
    RULE.takes("the control: anew", &one, 10, 0..8).await;
}

/// `ack-group-ensure`: a group begins at its start, which is resolved when it is created. The end is as far as that goes.
pub async fn ack_starts<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-group-ensure");
    let stream = RULE.entries(&subject).await;
    // Of another stream by this name perhaps. Where positions go by a clock, it is of the year 2109.
    let beyond = || Start::from(Position::new(0, 1 << 106));
    let empty = RULE.unwrap("looking up", stream.ack_group("empty"));
    RULE.that(RULE.ok("creating", empty.ensure(beyond())).await, "a group that wasn't there");
    let told = RULE.fill(&stream, 0..3).await;
    let between = later().await;
    RULE.fill(&stream, 3..5).await;
    let starts = [
        ("earliest", Start::Earliest, 0),
        ("beyond", beyond(), 5),
        ("latest", Start::Latest, 5),
        ("after", Start::from(told[1]), 2),
        ("last", Start::from(told[2]), 3),
        ("at", Start::At(between), 3),
        ("to-come", Start::At(between + HOUR), 5),
    ];
    for (name, start, _) in &starts {
        let group = RULE.unwrap("looking up", stream.ack_group(name));
        RULE.that(RULE.ok("creating", group.ensure(start.clone())).await, "a group that wasn't there");
    }
    RULE.fill(&stream, 5..7).await;
    RULE.takes("empty", &RULE.consumer(&empty, "one"), 10, 0..7).await;
    for (name, _, first) in starts {
        let group = RULE.unwrap("looking up", stream.ack_group(name));
        RULE.takes(name, &RULE.consumer(&group, "one"), 10, first..7).await;
    }

    // Several partitions: each at its own place, from the first record where none is given.
    let wide = RULE.unwrap("binding", Other::stream(stream.broker()));
    RULE.ok("creating the stream", wide.ensure(StreamSettings::new().partitions(2))).await;
    let mut told: Vec<Position> = Vec::new();
    for key in 0..20 {
        let receipt = RULE.ok("appending", wide.append(&key, &Other { n: key })).await;
        told.push(RULE.stored("appending", receipt));
    }
    let (zero, one): (Vec<_>, Vec<_>) = told.iter().copied().partition(|position| position.partition() == 0);
    RULE.that(zero.len() > 1 && one.len() > 1, "the test's keys must reach both partitions");
    let group = RULE.unwrap("looking up", wide.ack_group("g"));
    RULE.ok("creating", group.ensure(Start::from(zero[0]))).await;
    let consumer = RULE.unwrap("making a consumer", group.consumer("one"));
    let read = RULE.ok("reading", consumer.read(100, Duration::ZERO)).await;
    RULE.same("both partitions", read.len(), told.len() - 1);
    RULE.that(!places(&read).contains(&zero[0]), "strictly after the position");
}

/// `ack-group-lost`: a group that vanished, alone or with its stream, is `Absent` for all, also for those who wait; it is
/// never made again by itself, and never at the end.
pub async fn ack_group_lost<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-group-lost");
    let elsewhere = RULE.entries(&subject).await;
    let stream = RULE.bound(&subject);
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    for with_stream in [false, true] {
        // The control: with the group, everything works.
        let place = RULE.fill(&elsewhere, [1]).await[0];
        let read = RULE.ok("reading", one.read(10, Duration::ZERO)).await;
        RULE.that(places(&read).contains(&place), "the control: reading");
        RULE.same(
            "the control: acknowledging",
            RULE.ok("acknowledging", one.ack(places(&read))).await,
            read.len() as u64,
        );

        let mut tail = one.tail(false);
        let losing = async {
            RULE.eventually("both wait", async || stream.broker().stats().operations == 1).await;
            if with_stream {
                RULE.ok("removing the stream", elsewhere.delete()).await;
            } else {
                let group = RULE.unwrap("looking up", elsewhere.ack_group("g"));
                RULE.ok("removing the group", group.delete()).await;
            }
        };
        let waiting = async { tokio::join!(one.read(10, LONG), tail.receive(), losing) };
        let (read, tailed, ()) = RULE.within("losing the group wakes those who wait", waiting).await;
        let failed = [
            RULE.unwrap_err("reading while it goes", read),
            RULE.unwrap_err("following while it goes", tailed),
            RULE.fails("reading", one.read(10, Duration::ZERO)).await,
            RULE.fails("waiting", one.read(10, LONG)).await,
            RULE.fails("following", tail.receive()).await,
            RULE.fails("history", one.history(None, 10)).await,
            RULE.fails("claiming", one.claim(Duration::ZERO, 10)).await,
            RULE.fails("listing", group.pending(None, 10)).await,
            RULE.fails("counting", group.depth()).await,
            RULE.fails("extending", one.extend([place])).await,
            RULE.fails("releasing", one.release([place])).await,
            RULE.fails("removing a consumer", group.remove_consumer("one", None)).await,
            RULE.fails("acknowledging", one.ack([place])).await,
        ];
        for (index, error) in failed.iter().enumerate() {
            RULE.same(&format!("operation {index} on no group"), error.kind(), ErrorKind::Absent);
            RULE.that(error.is_transient(), "a group that is gone can be created again");
        }
        if with_stream {
            let failed = [
                RULE.fails("creating", group.ensure(Start::Earliest)).await,
                RULE.fails("removing", group.delete()).await,
                RULE.fails("trimming", group.trim_acknowledged()).await,
            ];
            for error in &failed {
                RULE.same("an operation on no stream", error.kind(), ErrorKind::Absent);
            }
            RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
        } else {
            RULE.same("removing no group", RULE.ok("removing", group.delete()).await, false);
        }
        // What comes in between is there for the group that is made again at its start.
        RULE.fill(&elsewhere, [2, 3]).await;
        RULE.that(RULE.ok("creating anew", group.ensure(Start::Earliest)).await, "a group that vanished is created");
        let expected: &[u64] = if with_stream { &[2, 3] } else { &[1, 2, 3] };
        let read = RULE.takes("anew", &one, 10, expected.iter().copied()).await;
        RULE.ok("acknowledging", one.ack(places(&read))).await;
    }
    // Where to begin anew is what `ensure` was given, but never the end.
    for (start, anew) in [
        (Start::Latest, Start::Earliest),
        (Start::Earliest, Start::Earliest),
        (Start::from(Position::new(0, 5)), Start::from(Position::new(0, 5))),
    ] {
        RULE.ok("opening", group.ensure(start)).await;
        RULE.same("where to begin anew", group.bound.start(), anew);
    }
}

/// `ack-trim`: trimming removes what every group has acknowledged, and nothing else.
pub async fn trim_acknowledged<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-trim");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..6).await;
    let other = RULE.bound(&subject);
    let unmade = RULE.unwrap("looking up", other.ack_group("unmade"));
    RULE.same("without a group", RULE.ok("trimming", unmade.trim_acknowledged()).await, 0);
    let (g, h) = (RULE.group::<S>(&stream, "g").await, RULE.group::<S>(&stream, "h").await);
    RULE.same("nothing is read", RULE.ok("trimming", g.trim_acknowledged()).await, 0);
    let (one, two) = (RULE.consumer(&g, "one"), RULE.consumer(&h, "two"));
    RULE.takes("reading", &one, 10, 0..6).await;
    RULE.takes("reading", &two, 3, 0..3).await;
    RULE.same("nothing is acknowledged", RULE.ok("trimming", g.trim_acknowledged()).await, 0);
    // One group has acknowledged all, the other two and one behind a gap.
    RULE.ok("acknowledging", one.ack(told.iter().copied())).await;
    RULE.same("one group alone", RULE.ok("trimming", g.trim_acknowledged()).await, 0);
    RULE.reads("everything is there", &other, Start::Earliest, 0..6).await;
    RULE.ok("acknowledging", two.ack([told[0], told[2]])).await;
    RULE.same("up to the gap", RULE.ok("trimming", h.trim_acknowledged()).await, 1);
    RULE.reads("from the gap on", &other, Start::Earliest, 1..6).await;
    let own = RULE.ok("history", two.history(None, 10)).await;
    RULE.same("what is pending is there", (RULE.numbers("history", &own.deliveries), own.lost), (vec![1], vec![]));
    RULE.ok("acknowledging", two.ack([told[1]])).await;
    RULE.same("what both have", RULE.ok("trimming", g.trim_acknowledged()).await, 2);
    RULE.takes("what one hasn't read is there", &two, 10, 3..6).await;
    RULE.ok("acknowledging", two.ack(told[3..].iter().copied())).await;
    RULE.same("all", RULE.ok("trimming", g.trim_acknowledged()).await, 3);
    RULE.same("none twice", RULE.ok("trimming", g.trim_acknowledged()).await, 0);
    RULE.reads("nothing is left", &other, Start::Earliest, []).await;
    // It goes on behind.
    let next = RULE.fill(&stream, [6]).await[0];
    RULE.that(next > told[5], "positions rise also over a trimmed stream");
    RULE.takes("reading on", &one, 10, [6]).await;
    if S::TRIMS_FOR_SURE {
        RULE.reads("an idle reader isn't overtaken", &other, told[5], [6]).await;
    }
}

/// `ack-remove-consumer`: a consumer is removed after its heir got what it had pending; without an heir it is refused.
pub async fn ack_remove_consumer<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-remove-consumer");
    let stream = RULE.entries_of(&subject, StreamSettings::new()).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, heir) = (RULE.consumer(&group, "one"), RULE.consumer(&group, "heir"));
    RULE.fill(&stream, 0..250).await;
    let held = RULE.ok("reading", one.read(240, Duration::ZERO)).await;
    RULE.same("held", held.len(), 240);
    RULE.takes("reading", &heir, 5, 240..245).await;

    let refused = RULE.fails("without an heir", group.remove_consumer("one", None)).await;
    RULE.refused("without an heir", &refused, ErrorKind::Conflict);
    let refused = RULE.fails("its own heir", group.remove_consumer("one", Some("one"))).await;
    RULE.refused("its own heir", &refused, ErrorKind::Invalid);
    let refused = RULE.fails("a bad heir", group.remove_consumer("one", Some("A"))).await;
    RULE.refused("a bad heir", &refused, ErrorKind::Invalid);
    let count = |pending: &[crate::PendingEntry], name: &str| pending.iter().filter(|one| one.consumer == name).count();
    let pending = RULE.ok("listing", group.pending(None, 1_000)).await;
    RULE.same("after a refusal", (count(&pending, "one"), count(&pending, "heir")), (240, 5));

    let handed = RULE.ok("removing", group.remove_consumer("one", Some("heir"))).await;
    RULE.same("handed over", handed, 240);
    let pending = RULE.ok("listing", group.pending(None, 1_000)).await;
    RULE.same("after the removal", (count(&pending, "one"), count(&pending, "heir")), (0, 245));
    let own = RULE.ok("history", heir.history(None, 1_000)).await;
    RULE.same("the heir has it", RULE.numbers("history", &own.deliveries), (0..245).collect::<Vec<_>>());
    RULE.same("the heir settles it", RULE.ok("acknowledging", heir.ack(places(&held))).await, 240);

    // Without anything pending no heir is needed; one that isn't there is no error, and an heir needn't be there.
    RULE.ok("acknowledging", heir.ack(places(&own.deliveries[240..]))).await;
    RULE.same("nothing pending", RULE.ok("removing", group.remove_consumer("heir", None)).await, 0);
    RULE.same("not there", RULE.ok("removing", group.remove_consumer("nobody", None)).await, 0);
    RULE.takes("the name again", &one, 3, 245..248).await;
    RULE.same("a new heir", RULE.ok("removing", group.remove_consumer("one", Some("new"))).await, 3);
    let own = RULE.ok("history", RULE.consumer(&group, "new").history(None, 10)).await;
    RULE.same("a new heir has it", RULE.numbers("history", &own.deliveries), [245, 246, 247]);
}
