use std::time::Duration;

use super::steps::SOON;
use crate::capability::CommitGroups;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::streams::steps::{ALL, HOUR, LONG, all, later, places, short};
use crate::error::{Error, ErrorKind};
use crate::stream::{CommitGroup, Delivery, MemberSettings, Positions, Start, StreamSettings};

/// `commit-group-ensure`: ensure records where a group begins, once among many; one that is there stays where it is.
pub async fn commit_group_ensure<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-group-ensure");
    let stream = RULE.bound(&subject);
    let group = RULE.unwrap("looking up", stream.commit_group("g"));
    // The stream's own ensure can be reached from here.
    RULE.ok("creating the stream", group.ensure_topic(StreamSettings::new())).await;
    RULE.ok("the same again", stream.ensure(StreamSettings::new())).await;

    let brokers: Vec<_> = (0..6).map(|_| RULE.elsewhere(&subject, "g")).collect();
    let races: Vec<_> = brokers.iter().map(|group| group.ensure(Start::Earliest)).collect();
    let recorded = RULE.within("many at once", all(races)).await;
    let recorded: Vec<_> = recorded.into_iter().map(|recorded| RULE.unwrap("many at once", recorded)).collect();
    RULE.that(recorded.contains(&true), "somebody recorded it");

    let told = RULE.fill(&stream, 0..8).await;
    let one = RULE.joins(&group).await;
    let ensured_again = async |what: &str, group: &CommitGroup<_, S::Backend>| {
        for start in [Start::Earliest, Start::Latest, Start::from(told[6])] {
            let recorded = RULE.ok(what, group.ensure(start)).await;
            RULE.same(what, recorded, false);
        }
    };
    // Whatever the start, with a member and without, before the first commit and after.
    ensured_again("with a member", &brokers[1]).await;
    RULE.gives("from where it was recorded", &one, 0..8).await;
    RULE.ok("committing", one.commit([told[3]])).await;
    ensured_again("after a commit", &brokers[2]).await;
    RULE.committed_is("it stays where it is", &group, 0, told[3]).await;
    RULE.within("leaving", one.leave()).await;
    ensured_again("without members", &brokers[3]).await;
    RULE.committed_is("it stays where it is", &group, 0, told[3]).await;
    let two = RULE.joins(&brokers[4]).await;
    RULE.gives("where it was", &two, 4..8).await;
    RULE.within("leaving", two.leave()).await;
    // The control: removed, it begins anew.
    RULE.same("removing", RULE.ok("removing", brokers[5].delete()).await, true);
    RULE.same("removing again", RULE.ok("removing again", group.delete()).await, false);
    let failed = RULE.fails("joining what was removed", group.join(MemberSettings::new())).await;
    RULE.refused("joining what was removed", &failed, ErrorKind::Absent);
    RULE.that(RULE.ok("recording anew", group.ensure(Start::Earliest)).await, "what was removed is recorded anew");
    let three = RULE.joins(&group).await;
    RULE.gives("the control: anew", &three, 0..8).await;
}

/// `commit-group-ensure`: a group begins at its start, which is recorded at once: what is appended after it is read, also
/// when nobody had joined before (F22).
pub async fn commit_starts<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-group-ensure");
    let stream = RULE.entries(&subject).await;
    // In a stream without a record, too.
    let empty = RULE.unwrap("looking up", stream.commit_group("empty"));
    RULE.that(RULE.ok("recording", empty.ensure(Start::Latest)).await, "it is recorded");
    let mut told = RULE.fill(&stream, 0..3).await;
    let between = later().await;
    told.extend(RULE.fill(&stream, 3..5).await);
    let starts = [
        ("earliest", Start::Earliest, 0),
        ("latest", Start::Latest, 5),
        ("after", Start::from(told[1]), 2),
        ("last", Start::from(told[4]), 5),
        ("nowhere", Start::from(Positions::new()), 0),
        ("at", Start::At(between), 3),
        ("to-come", Start::At(between + HOUR), 5),
    ];
    let mut groups = vec![(empty, 0)];
    for (name, start, next) in starts {
        let group = RULE.unwrap("looking up", stream.commit_group(name));
        RULE.that(RULE.ok("recording", group.ensure(start)).await, "it is recorded");
        groups.push((group, next));
    }
    for (group, next) in &groups {
        let expected = usize::checked_sub(*next, 1).map(|last| told[last]);
        RULE.committed_is(&format!("where `{}` begins", group.name()), group, 0, expected).await;
    }
    RULE.fill(&stream, 5..7).await;
    for (group, next) in &groups {
        let what = format!("`{}`", group.name());
        // One that crashes before it commits anything changes nothing.
        drop(RULE.ok("joining", RULE.elsewhere(&subject, group.name()).join(MemberSettings::new())).await);
        let one = RULE.joins(group).await;
        RULE.gives(&what, &one, *next as u64..7).await;
        RULE.within("leaving", one.leave()).await;
    }
}

/// `commit-no-create`: nothing but ensure makes a group, and nothing a group does makes a stream.
pub async fn commit_no_create<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-no-create");
    let stream = RULE.bound(&subject);
    let group = RULE.unwrap("looking up", stream.commit_group("g"));
    let absent = |what: &str, error: &Error| {
        RULE.refused(what, error, ErrorKind::Absent);
        RULE.that(error.is_transient(), "what is absent may be there later");
    };
    for _ in 0..2 {
        absent("recording without a stream", &RULE.fails("recording", group.ensure(Start::Earliest)).await);
        absent("recording without a stream", &RULE.fails("recording", group.ensure(Start::Latest)).await);
        absent("joining without a stream", &RULE.fails("joining", group.join(MemberSettings::new())).await);
        absent("counting without a stream", &RULE.fails("counting", group.lag()).await);
        absent("asking without a stream", &RULE.fails("asking", group.committed()).await);
        absent("moving without a stream", &RULE.fails("moving", group.reset_offsets(Start::Latest)).await);
        absent("removing without a stream", &RULE.fails("removing", group.delete()).await);
        let read = RULE.fails("reading", stream.read(Start::Earliest, 1, Duration::ZERO)).await;
        absent("there is no stream afterwards", &read);
        RULE.same("there is no stream afterwards", RULE.ok("removing", stream.delete()).await, false);
    }
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    RULE.fill(&stream, 0..3).await;
    for _ in 0..2 {
        absent("joining without a group", &RULE.fails("joining", group.join(MemberSettings::new())).await);
        absent("counting without a group", &RULE.fails("counting", group.lag()).await);
        absent("asking without a group", &RULE.fails("asking", group.committed()).await);
        absent("moving without a group", &RULE.fails("moving", group.reset_offsets(Start::Latest)).await);
        RULE.same("removing no group", RULE.ok("removing", group.delete()).await, false);
    }
    RULE.that(RULE.ok("recording", group.ensure(Start::Earliest)).await, "the control: ensure records it");
    let one = RULE.joins(&group).await;
    RULE.gives("the control: a group", &one, 0..3).await;
}

/// `commit-group-lost`: where the stream goes, its members end with `Absent`, for good; what is made anew is another.
pub async fn commit_group_lost<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-group-lost");
    let stream = RULE.entries(&subject).await;
    let group = RULE.commits(&stream, "g").await;
    let told = RULE.fill(&stream, 0..3).await;
    let one = RULE.joins(&group).await;
    RULE.gives("reading", &one, 0..3).await;
    RULE.ok("committing", one.commit([told[1]])).await;
    let removing = async {
        tokio::time::sleep(SOON).await;
        RULE.ok("removing the stream", RULE.bound(&subject).delete()).await
    };
    let waiting = async {
        loop {
            match one.read(ALL, LONG).await {
                Ok(read) => RULE.that(read.is_empty(), "nothing comes"),
                Err(error) if error.kind() == ErrorKind::Absent => return,
                Err(error) => RULE.that(error.is_transient(), &format!("ended by {error}")),
            }
        }
    };
    let (removed, ()) = RULE.within("a member of no stream ends", async { tokio::join!(removing, waiting) }).await;
    RULE.that(removed, "the stream was there");
    let absent = async |what: &str| {
        let read = RULE.fails(what, one.read(ALL, SOON)).await;
        RULE.same(what, read.kind(), ErrorKind::Absent);
        let mut tail = one.tail();
        RULE.same(what, RULE.fails(what, tail.receive()).await.kind(), ErrorKind::Absent);
    };
    absent("a member of no stream").await;
    RULE.refused("no stream", &RULE.fails("counting", group.lag()).await, ErrorKind::Absent);
    RULE.ok("creating it anew", stream.ensure(StreamSettings::new())).await;
    absent("an old member").await;
    RULE.refused("its groups are gone with it", &RULE.fails("counting", group.lag()).await, ErrorKind::Absent);
    RULE.that(RULE.ok("recording anew", group.ensure(Start::Earliest)).await, "it is recorded anew");
    absent("an old member").await;
    RULE.fill(&stream, 5..8).await;
    let two = RULE.joins(&group).await;
    let read = RULE.gives("the control: a new member", &two, 5..8).await;
    RULE.ok("committing", two.commit(places(&read))).await;
    RULE.same("nothing is left", RULE.behind_by(&group).await, [0]);
}

/// `commit-trimmed`: what was removed before it could be read is told, with the first that is left, where reading goes on.
pub async fn commit_trimmed<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-trimmed");
    let stream = RULE.bound(&subject);
    for tails in [false, true] {
        RULE.ok("removing", stream.delete()).await;
        RULE.ok("creating", stream.ensure(short::<S>())).await;
        let group = RULE.commits(&stream, "g").await;
        let told = RULE.fill(&stream, 0..3).await;
        RULE.ok("moving", group.reset_offsets(told[1])).await;
        // The control: nothing is removed yet of what comes next.
        let one = RULE.joins(&group).await;
        RULE.gives("before anything is removed", &one, [2]).await;
        RULE.within("leaving", one.leave()).await;
        let first = RULE.overrun(&subject, &stream, told[2]).await;
        let one = RULE.joins(&group).await;
        let mut tail = one.tail();
        let mut next = async || -> Result<Option<Delivery<_>>, Error> {
            if tails { tail.receive().await.map(Some) } else { Ok(one.read(1, SOON).await?.pop()) }
        };
        let told_of = RULE.within("being overtaken", async {
            loop {
                match next().await {
                    Ok(None) => {}
                    Ok(Some(read)) => panic!("commit-trimmed: jumped to `{}` in silence", read.position()),
                    Err(error) => return error,
                }
            }
        });
        let error = told_of.await;
        RULE.refused("being overtaken", &error, ErrorKind::Trimmed { certain: S::TRIMS_FOR_SURE });
        RULE.same("the first position left", error.first_left(), Some(first));
        let read = RULE.within("reading on", async {
            loop {
                if let Some(read) = RULE.unwrap("it is told once", next().await) {
                    return read;
                }
            }
        });
        RULE.same("it goes on there", read.await.position(), first);
        RULE.ok("committing", one.commit([first])).await;
        RULE.committed_is("what is committed", &group, 0, first).await;
        drop(tail);
        RULE.within("leaving", one.leave()).await;
    }
}
