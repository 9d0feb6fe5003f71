//! Steps that many properties of commit groups take.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{ALL, Entries};
use crate::stream::{CommitGroup, Delivery, Member, MemberSettings, Position, Positions, Start, Stream};

/// A group of the stream that most properties use.
pub(super) type Group<S> = CommitGroup<Entry, <S as Subject>::Backend>;

/// How long one of many reads waits.
pub(super) const SOON: Duration = Duration::from_millis(50);
/// Long enough for what mustn't happen, had it begun to.
pub(super) const AWHILE: Duration = Duration::from_millis(600);
/// So long a hand-over may take where it isn't what is tested.
pub(super) const PATIENT: Duration = Duration::from_mins(2);

/// Where the numbers of each partition stand, in order.
pub(super) type Spread = BTreeMap<u32, Vec<(u64, Position)>>;

impl Rule {
    /// Looks up a group, and records that it begins at the first record.
    pub(super) async fn commits<B: CommitGroups>(self, stream: &Stream<Entry, B>, name: &str) -> CommitGroup<Entry, B> {
        let group = self.unwrap("looking up a group", stream.commit_group(name));
        let recorded = self.ok("recording a group", group.ensure(Start::Earliest)).await;
        self.that(recorded, "of a group that wasn't there the beginning must be recorded");
        group
    }

    /// The same group by another broker, which has ensured nothing.
    pub(super) fn elsewhere<S: crate::conformance::Streams<Backend: CommitGroups>>(
        self,
        subject: &S,
        name: &str,
    ) -> Group<S> {
        self.unwrap("looking up a group", self.bound(subject).commit_group(name))
    }

    /// Joins, with time to hand over.
    pub(super) async fn joins<B: CommitGroups>(self, group: &CommitGroup<Entry, B>) -> Member<Entry, B> {
        self.ok("joining", group.join(MemberSettings::new().hand_over(PATIENT))).await
    }

    /// Reads until so many records have come.
    pub(super) async fn gathers<B: CommitGroups>(
        self,
        what: &str,
        member: &Member<Entry, B>,
        count: usize,
    ) -> Vec<Delivery<Entry>> {
        let mut gathered = Vec::new();
        self.within(what, async {
            while gathered.len() < count {
                gathered.extend(self.ok(what, member.read(ALL, SOON)).await);
            }
        })
        .await;
        self.same(&format!("{what}: how many"), gathered.len(), count);
        gathered
    }

    /// Says what comes of a stream of one partition, and returns it.
    pub(super) async fn gives<B: CommitGroups>(
        self,
        what: &str,
        member: &Member<Entry, B>,
        expected: impl IntoIterator<Item = u64>,
    ) -> Vec<Delivery<Entry>> {
        let expected: Vec<u64> = expected.into_iter().collect();
        let gathered = self.gathers(what, member, expected.len()).await;
        self.same(what, self.numbers(what, &gathered), expected);
        gathered
    }

    /// Says that nothing comes.
    pub(super) async fn gives_nothing<B: CommitGroups>(self, what: &str, member: &Member<Entry, B>) {
        let read = self.ok(what, member.read(ALL, AWHILE)).await;
        self.same(what, self.numbers(what, &read), Vec::<u64>::new());
    }

    /// Has members read in turn, until this is true of what they have; returns what each was given.
    pub(super) async fn drive<B: CommitGroups>(
        self,
        what: &str,
        members: &[&Member<Entry, B>],
        done: impl Fn(&[Vec<Delivery<Entry>>]) -> bool,
    ) -> Vec<Vec<Delivery<Entry>>> {
        let mut given: Vec<Vec<Delivery<Entry>>> = members.iter().map(|_| Vec::new()).collect();
        self.within(what, async {
            while !done(&given) {
                for (member, given) in members.iter().zip(&mut given) {
                    given.extend(self.ok(what, member.read(ALL, SOON)).await);
                }
            }
        })
        .await;
        given
    }

    pub(super) async fn committed<B: CommitGroups>(self, group: &CommitGroup<Entry, B>) -> Positions {
        self.ok("asking what is committed", group.committed()).await
    }

    /// Says up to where a partition is committed.
    pub(super) async fn committed_is<B: CommitGroups>(
        self,
        what: &str,
        group: &CommitGroup<Entry, B>,
        partition: u32,
        expected: impl Into<Option<Position>>,
    ) {
        self.same(what, self.committed(group).await.get(partition), expected.into());
    }

    /// The lag of each partition.
    pub(super) async fn behind_by<B: CommitGroups>(self, group: &CommitGroup<Entry, B>) -> Vec<u64> {
        let lag = self.ok("counting", group.lag()).await;
        let partitions: Vec<u32> = lag.iter().map(|lag| lag.partition).collect();
        let count = u32::try_from(lag.len()).unwrap_or(u32::MAX);
        self.same("the partitions of the lag, in order", partitions, (0..count).collect::<Vec<_>>());
        lag.iter().map(|lag| lag.records).collect()
    }

    /// Appends numbers, each under itself as the key, until each partition has so many.
    pub(super) async fn spread<S: crate::conformance::Streams>(
        self,
        stream: &Entries<S>,
        partitions: u32,
        each: usize,
    ) -> Spread {
        let mut spread: Spread = (0..partitions).map(|partition| (partition, Vec::new())).collect();
        for n in 0.. {
            if spread.values().all(|numbers| numbers.len() >= each) {
                break;
            }
            let receipt = self.ok("appending", stream.append(&n, &Entry { n })).await;
            let position = self.stored("appending", receipt);
            spread.entry(position.partition()).or_default().push((n, position));
        }
        spread
    }

    /// Says that these records of these partitions came, each once and in order, and no others.
    #[track_caller]
    pub(super) fn in_place(self, what: &str, given: &[Delivery<Entry>], expected: &Spread) {
        let mut got: Spread = BTreeMap::new();
        for delivery in given {
            let place = delivery.position();
            got.entry(place.partition()).or_default().push((self.number(what, delivery), place));
        }
        let expected: Spread =
            expected.iter().filter(|(_, own)| !own.is_empty()).map(|(p, own)| (*p, own.clone())).collect();
        self.same(what, got, expected);
    }
}

pub(super) fn total(spread: &Spread) -> usize {
    spread.values().map(Vec::len).sum()
}

/// What of these partitions comes after the first so many.
pub(super) fn after(spread: &Spread, partitions: &[u32], skipped: usize) -> Spread {
    let own = spread.iter().filter(|(partition, _)| partitions.contains(partition));
    own.map(|(partition, numbers)| (*partition, numbers[skipped..].to_vec())).collect()
}

/// The position of one record in each of these partitions.
pub(super) fn nth(spread: &Spread, partitions: &[u32], index: usize) -> Vec<Position> {
    partitions.iter().map(|partition| spread[partition][index].1).collect()
}

/// The last position of each of these partitions.
pub(super) fn last(spread: &Spread, partitions: &[u32]) -> Vec<Position> {
    partitions.iter().filter_map(|partition| spread[partition].last()).map(|(_, position)| *position).collect()
}
