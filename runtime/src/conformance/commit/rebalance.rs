use std::time::Duration;

use tokio::time::Instant;

use super::steps::{PATIENT, SOON, after, last, nth, total};
use crate::capability::CommitGroups;
use crate::conformance::rule::Rule;
use crate::conformance::streams::steps::ALL;
use crate::conformance::{PATIENCE, Streams};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{MemberSettings, StreamSettings};

const RULE: Rule = Rule("commit-rebalance");

/// `commit-rebalance`: a second member gets its share when the first reads on, and begins after what was committed; a late
/// commit is refused for what has moved, and recorded for the rest.
pub async fn commit_rebalance<S: Streams<Backend: CommitGroups>>(subject: S) {
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(4)).await;
    let group = RULE.commits(&stream, "g").await;
    let far = RULE.elsewhere(&subject, "g");
    let spread = RULE.spread::<S>(&stream, 4, 5).await;
    let one = RULE.joins(&group).await;
    let held = RULE.gathers("the only member", &one, total(&spread)).await;
    RULE.in_place("all partitions", &held, &spread);
    RULE.same("all of them are its own", one.assigned(), [0, 1, 2, 3]);
    RULE.ok("committing", one.commit(nth(&spread, &[0, 1, 2, 3], 0))).await;

    // What was given is the member's until it reads on.
    let two = RULE.joins(&far).await;
    RULE.gives_nothing("before the first reads on", &two).await;
    RULE.same("before the first reads on", (one.assigned(), two.assigned()), (vec![0, 1, 2, 3], vec![]));
    RULE.ok("committing what is to move", one.commit(nth(&spread, &[0, 1, 2, 3], 1))).await;

    let given = RULE
        .drive("sharing", &[&one, &two], |given| {
            one.assigned().len() == 2 && two.assigned().len() == 2 && !given[1].is_empty()
        })
        .await;
    RULE.same("the first has read all", RULE.numbers("the first", &given[0]), Vec::<u64>::new());
    let (stay, moved) = (one.assigned(), two.assigned());
    let mut both = [&stay[..], &moved[..]].concat();
    both.sort_unstable();
    RULE.same("each partition is one member's", both, [0, 1, 2, 3]);
    // Its records from after what was committed, each in its place.
    let left = after(&spread, &moved, 2);
    let mut theirs = given.into_iter().nth(1).unwrap_or_default();
    let missing = total(&left).saturating_sub(theirs.len());
    theirs.extend(RULE.gathers("the new owner", &two, missing).await);
    RULE.in_place("the new owner begins after what is committed", &theirs, &left);

    // A commit of all that was held: what has moved is refused and named, and the rest is recorded (F07).
    let late = RULE.fails("a late commit", one.commit(last(&spread, &[0, 1, 2, 3]))).await;
    RULE.same("a late commit", (late.kind(), late.outcome()), (ErrorKind::Revoked, Outcome::NotApplied));
    let text = late.to_string();
    let named: Vec<String> = moved.iter().map(ToString::to_string).collect();
    RULE.that(text.contains(&named.join(", ")), &format!("`{text}` must name the partitions {moved:?}"));
    let committed = RULE.committed(&group).await;
    let own: Vec<_> = stay.iter().filter_map(|partition| committed.get(*partition)).collect();
    RULE.same("the others of the same call", own, last(&spread, &stay));
    let theirs: Vec<_> = moved.iter().filter_map(|partition| committed.get(*partition)).collect();
    RULE.same("what has moved", theirs, nth(&spread, &moved, 1));

    // Nor does the old owner move it back (F05).
    RULE.ok("the new owner commits", two.commit(last(&spread, &moved))).await;
    for index in [0, 1, 3] {
        let late = RULE.fails("a late commit", one.commit(nth(&spread, &moved, index))).await;
        RULE.same("a late commit", late.kind(), ErrorKind::Revoked);
    }
    let committed = RULE.committed(&far).await;
    RULE.same("never back", committed.iter().collect::<Vec<_>>(), last(&spread, &[0, 1, 2, 3]));
    RULE.same("nothing is left", RULE.behind_by(&group).await, [0; 4]);

    // One that leaves gives up its partitions at once, and nothing that is committed comes again.
    RULE.within("leaving", one.leave()).await;
    let given = RULE.drive("taking over", &[&two], |_| two.assigned().len() == 4).await;
    RULE.same("what is committed", RULE.numbers("taking over", &given[0]), Vec::<u64>::new());
    let more = RULE.spread::<S>(&stream, 4, 2).await;
    let read = RULE.gathers("all partitions", &two, total(&more)).await;
    RULE.in_place("all partitions", &read, &more);
    // Dropped, it leaves as well.
    drop(two);
    let three = RULE.joins(&group).await;
    let read = RULE.gathers("what isn't committed", &three, total(&more)).await;
    RULE.in_place("what isn't committed comes to the next", &read, &more);
    drop(three);
    more_members_than_partitions::<S>(&subject).await;
}

async fn more_members_than_partitions<S: Streams<Backend: CommitGroups>>(subject: &S) {
    let stream = RULE.bound(subject);
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(2))).await;
    let group = RULE.commits(&stream, "crowd").await;
    let members = [RULE.joins(&group).await, RULE.joins(&group).await, RULE.joins(&group).await];
    let all = [&members[0], &members[1], &members[2]];
    let shares = || {
        let mut shares = all.map(|member| member.assigned().len());
        shares.sort_unstable();
        shares
    };
    RULE.drive("spreading", &all, |_| shares() == [0, 1, 1]).await;
    let spread = RULE.spread::<S>(&stream, 2, 3).await;
    let count = |given: &[Vec<_>]| given.iter().map(Vec::len).sum::<usize>();
    let given = RULE.drive("reading", &all, |given| count(given) >= total(&spread)).await;
    let given: Vec<_> = given.into_iter().flatten().collect();
    RULE.in_place("each record to one member", &given, &spread);
    RULE.same("one of them has nothing", shares(), [0, 1, 1]);
}

/// `commit-rebalance`: what isn't handed over is taken when its time is up, and not before.
pub async fn commit_hand_over<S: Streams<Backend: CommitGroups>>(subject: S) {
    let stream = RULE.bound(&subject);
    for time in [Duration::ZERO, Duration::from_secs(2)] {
        RULE.ok("removing", stream.delete()).await;
        RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(2))).await;
        let group = RULE.commits(&stream, "g").await;
        let spread = RULE.spread::<S>(&stream, 2, 3).await;
        let one = RULE.ok("joining", group.join(MemberSettings::new().hand_over(time))).await;
        RULE.gathers("reading", &one, total(&spread)).await;
        let began = Instant::now();
        // The first one's time counts, not the second one's.
        let two = RULE.ok("joining", group.join(MemberSettings::new().hand_over(PATIENT))).await;
        let mut read = Vec::new();
        RULE.within("what isn't handed over is taken", async {
            while read.is_empty() {
                read = RULE.ok("reading", two.read(ALL, SOON)).await;
            }
        })
        .await;
        let took = began.elapsed();
        RULE.that(took >= time, &format!("it moved after {took:?}, where its owner has {time:?}"));
        RULE.that(took < time + PATIENCE, "it moves once the time is up");
        let moved = two.assigned();
        RULE.same("its share", moved.len(), 1);
        let late = RULE.fails("a commit after its time", one.commit(last(&spread, &moved))).await;
        RULE.same("a commit after its time", late.kind(), ErrorKind::Revoked);
        RULE.same("nothing of it is recorded", RULE.committed(&group).await.get(moved[0]), None);
        let stay: Vec<u32> = [0, 1].into_iter().filter(|partition| !moved.contains(partition)).collect();
        RULE.ok("the control: what stays", one.commit(last(&spread, &stay))).await;
        RULE.within("leaving", one.leave()).await;
        RULE.within("leaving", two.leave()).await;
    }
    // The control: one that reads on hands over before.
    RULE.ok("removing", stream.delete()).await;
    RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(2))).await;
    let group = RULE.commits(&stream, "g").await;
    let one = RULE.joins(&group).await;
    RULE.drive("reading", &[&one], |_| one.assigned().len() == 2).await;
    let two = RULE.joins(&group).await;
    let began = Instant::now();
    RULE.drive("the control: reading on", &[&one, &two], |_| two.assigned().len() == 1).await;
    RULE.that(began.elapsed() < PATIENT, "a partition is handed over when its owner reads on");
}
