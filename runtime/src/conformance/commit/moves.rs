use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use super::steps::{Group, SOON, after, last, nth, total};
use crate::broker::lock;
use crate::capability::CommitGroups;
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{ALL, all, places};
use crate::error::ErrorKind;
use crate::stream::{Delivery, MemberSettings, Position, Positions, Start, StreamSettings};

const RULE: Rule = Rule("commit-rebalance");

/// `commit-rebalance`: a partition that comes back to a member goes on where others have committed it meanwhile (F06).
pub async fn commit_returns<S: Streams<Backend: CommitGroups>>(subject: S) {
    let stream = RULE.bound(&subject);
    for (tails, commits) in [(false, true), (false, false), (true, true)] {
        RULE.ok("removing", stream.delete()).await;
        RULE.ok("creating", stream.ensure(StreamSettings::new().partitions(2))).await;
        let group = RULE.commits(&stream, "g").await;
        let spread = RULE.spread::<S>(&stream, 2, 8).await;
        let one = RULE.joins(&group).await;
        // The first has read all, and committed two of each.
        RULE.gathers("reading", &one, total(&spread)).await;
        RULE.ok("committing", one.commit(nth(&spread, &[0, 1], 1))).await;
        let two = RULE.joins(&group).await;
        let given = RULE
            .drive("moving", &[&one, &two], |given| {
                one.assigned().len() == 1 && two.assigned().len() == 1 && !given[1].is_empty()
            })
            .await;
        let (stay, moved) = (one.assigned(), two.assigned());
        RULE.same("the second begins there", given[1].first().map(Delivery::position), Some(spread[&moved[0]][2].1));
        if commits {
            RULE.gathers("reading", &two, spread[&moved[0]].len() - 2 - given[1].len()).await;
            RULE.ok("the second commits", two.commit(nth(&spread, &moved, 5))).await;
        }
        RULE.within("leaving", two.leave()).await;
        let left = after(&spread, &moved, if commits { 6 } else { 2 });
        let mut read = Vec::new();
        if tails {
            let mut tail = one.tail();
            while read.len() < total(&left) {
                read.push(RULE.ok("tailing on", tail.receive()).await);
            }
        } else {
            read.extend(RULE.gathers("reading on", &one, total(&left)).await);
        }
        RULE.in_place("it goes on where the partition is committed", &read, &left);
        RULE.same("all are its own again", one.assigned(), [0, 1]);
        // What it had before counts no more than what is committed.
        RULE.ok("an old position", one.commit(nth(&spread, &moved, 0))).await;
        RULE.committed_is("never back", &group, moved[0], spread[&moved[0]][if commits { 5 } else { 1 }].1).await;
        RULE.committed_is("the other stays", &group, stay[0], spread[&stay[0]][1].1).await;
        RULE.ok("committing", one.commit(last(&spread, &[0, 1]))).await;
        RULE.same("nothing is left", RULE.behind_by(&group).await, [0, 0]);
        RULE.within("leaving", one.leave()).await;
    }
}

/// What members did, in order.
#[derive(Default)]
struct Log {
    given: Vec<Given>,
    committed: Positions,
}

struct Given {
    stay: usize,
    number: u64,
    at: Position,
    /// What was committed when the read began that gave it.
    floor: Option<Position>,
}

/// `commit-rebalance`: while members join and leave under load, nothing is lost, a partition's records come in their order
/// and without gaps, and only what isn't committed comes twice.
pub async fn commit_churn<S: Streams<Backend: CommitGroups>>(subject: S) {
    const STAYS: usize = 4;
    const COUNT: u64 = 600;
    let partitions = 5;
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(partitions)).await;
    let group = RULE.commits(&stream, "g").await;
    let log = Mutex::new(Log::default());
    let mut appended = 0;
    let producing = async {
        for n in 0..COUNT {
            RULE.ok("appending", stream.append(&(n % 40), &Entry { n })).await;
            appended += 1;
            if n % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let groups: Vec<_> = (0..3).map(|_| RULE.elsewhere(&subject, "g")).collect();
    let members = groups.iter().enumerate().map(|(index, group)| {
        let log = &log;
        async move {
            for stay in 0..STAYS {
                member::<S>(group, log, index * STAYS + stay, 3 + 2 * index + stay).await;
            }
        }
    });
    let ((), _) = tokio::time::timeout(Duration::from_mins(2), async { tokio::join!(producing, all(members)) })
        .await
        .unwrap_or_else(|_| panic!("commit-rebalance: hung: members that come and go"));
    // One that stays takes the rest.
    let rest = RULE.joins(&group).await;
    RULE.within("the rest", async {
        while RULE.behind_by(&group).await.iter().sum::<u64>() > 0 {
            read::<S>(&rest, &log, usize::MAX, true).await;
        }
    })
    .await;

    let everything = RULE.read("reading", &stream, Start::Earliest).await;
    RULE.same("everything was appended", everything.len() as u64, COUNT);
    let mut order: BTreeMap<u32, Vec<Position>> = BTreeMap::new();
    for at in places(&everything) {
        order.entry(at.partition()).or_default().push(at);
    }
    let log = lock(&log);
    let numbers: BTreeSet<u64> = log.given.iter().map(|given| given.number).collect();
    RULE.same("nothing is lost", numbers, (0..COUNT).collect::<BTreeSet<_>>());
    let mut furthest: BTreeMap<u32, usize> = BTreeMap::new();
    let mut before: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    for Given { stay, number, at, floor } in &log.given {
        let partition = at.partition();
        let index = order[&partition].iter().position(|there| there == at).expect("what was given is in the stream");
        let first = furthest.get(&partition).map_or(0, |furthest| furthest + 1);
        RULE.that(index <= first, &format!("{number} was given where one before it of its partition never was"));
        furthest.insert(partition, index.max(first.saturating_sub(1)));
        RULE.that(floor.is_none_or(|floor| floor < *at), &format!("{number} came again after it was committed"));
        // In order, but where the partition went away meanwhile and came back.
        let last = before.insert((*stay, partition), index);
        let committed = floor.and_then(|floor| order[&partition].iter().position(|there| *there == floor));
        let begins = committed.map_or(0, |committed| committed + 1);
        RULE.that(
            last.is_none_or(|last| index == last + 1) || index >= begins && index <= first,
            &format!("{number} was given out of order"),
        );
    }
}

/// One stay in the group.
async fn member<S: Streams<Backend: CommitGroups>>(group: &Group<S>, log: &Mutex<Log>, stay: usize, reads: usize) {
    let settings = MemberSettings::new().hand_over(Duration::from_secs(30));
    let member = RULE.ok("joining", group.join(settings)).await;
    for turn in 0..reads {
        // Of the last read nothing is committed.
        read::<S>(&member, log, stay, turn + 1 < reads).await;
    }
    if stay.is_multiple_of(2) { RULE.within("leaving", member.leave()).await } else { drop(member) }
}

async fn read<S: Streams<Backend: CommitGroups>>(
    member: &crate::Member<Entry, S::Backend>,
    log: &Mutex<Log>,
    stay: usize,
    commits: bool,
) {
    let floor = lock(log).committed.clone();
    let read = RULE.ok("reading", member.read(if commits { 7 } else { ALL }, SOON)).await;
    let within = places(&read);
    let in_order = |partition: u32| {
        let own: Vec<_> = within.iter().filter(|at| at.partition() == partition).collect();
        own.windows(2).all(|pair| pair[0] < pair[1])
    };
    RULE.that(within.iter().all(|at| in_order(at.partition())), "one read gives a partition's records in order");
    lock(log).given.extend(read.iter().map(|delivery| {
        let (number, at) = (RULE.number("reading", delivery), delivery.position());
        Given { stay, number, at, floor: floor.get(at.partition()) }
    }));
    if commits && !within.is_empty() {
        match RULE.within("committing", member.commit(within.clone())).await {
            Ok(()) => lock(log).committed.extend(within),
            // It took longer than it had.
            Err(error) => RULE.same("a commit that fails", error.kind(), ErrorKind::Revoked),
        }
    }
}
