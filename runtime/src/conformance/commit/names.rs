use std::time::Duration;

use super::steps::{AWHILE, PATIENT};
use crate::capability::CommitGroups;
use crate::conformance::rule::Rule;
use crate::conformance::streams::steps::ALL;
use crate::conformance::{Streams, Subject};
use crate::error::ErrorKind;
use crate::stream::{MemberSettings, StreamSettings};

/// `commit-names`: a member with a name gets its partitions back after a restart, and nobody else has them meanwhile; a
/// name is one member's (F18).
pub async fn commit_names<S: Streams<Backend: CommitGroups>>(subject: S) {
    const RULE: Rule = Rule("commit-names");
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(4)).await;
    let group = RULE.commits(&stream, "g").await;
    let (here, there) = (RULE.elsewhere(&subject, "g"), RULE.elsewhere(&subject, "g"));
    let named = |name: &str| MemberSettings::new().hand_over(PATIENT).name(name);
    let one = RULE.ok("joining", here.join(named("one"))).await;
    let two = RULE.ok("joining", there.join(named("two"))).await;
    let shared = || one.assigned().len() == 2 && two.assigned().len() == 2;
    RULE.drive("sharing", &[&one, &two], |_| shared()).await;
    let (first, second) = (one.assigned(), two.assigned());
    let spread = RULE.spread::<S>(&stream, 4, 3).await;
    let own: Vec<_> = spread.iter().filter(|(p, _)| first.contains(p)).flat_map(|(_, own)| own).copied().collect();
    RULE.gathers("reading", &one, own.len()).await;

    // Gone and back: the other gets nothing of it meanwhile, and what wasn't committed comes again.
    RULE.within("leaving", one.leave()).await;
    let read = RULE.ok("reading", two.read(ALL, AWHILE)).await;
    RULE.that(read.iter().all(|one| second.contains(&one.position().partition())), "its partitions wait for it");
    RULE.same("the other keeps its own", two.assigned(), &second[..]);
    let again = RULE.elsewhere(&subject, "g");
    let one = RULE.ok("joining again", again.join(named("one"))).await;
    let read = RULE.gathers("what isn't committed", &one, own.len()).await;
    RULE.same("the same partitions", one.assigned(), &first[..]);
    let mut numbers = RULE.numbers("what isn't committed", &read);
    numbers.sort_unstable();
    let mut expected: Vec<u64> = own.iter().map(|(n, _)| *n).collect();
    expected.sort_unstable();
    RULE.same("what isn't committed", numbers, expected);

    // A live name isn't had twice: the second is refused, or the first is told that it was replaced.
    let late = RULE.elsewhere(&subject, "g");
    match RULE.within("a second of one name", late.join(named("one"))).await {
        Err(refused) => {
            RULE.refused("a second of one name", &refused, ErrorKind::Conflict);
            RULE.gives_nothing("the first goes on", &one).await;
            RULE.same("the first keeps its partitions", one.assigned(), &first[..]);
            RULE.within("leaving", one.leave()).await;
        }
        Ok(other) => {
            let ended = RULE.within("one of them ends", async {
                loop {
                    for member in [&one, &other] {
                        if let Err(error) = member.read(ALL, Duration::from_millis(50)).await {
                            return error;
                        }
                    }
                }
            });
            let kind = ended.await.kind();
            RULE.that(matches!(kind, ErrorKind::Revoked | ErrorKind::Conflict), &format!("ended by {kind:?}"));
            RULE.that(one.assigned().is_empty() || other.assigned().is_empty(), "only one has partitions");
            RULE.within("leaving", one.leave()).await;
            RULE.within("leaving", other.leave()).await;
        }
    }
    // The control: one without a name leaves nothing behind that waits; one whose name never comes back does, for a time.
    if <S as Subject>::PAUSED {
        let began = tokio::time::Instant::now();
        while two.assigned().len() < 4 {
            RULE.ok("reading", two.read(ALL, Duration::from_secs(10))).await;
            RULE.that(began.elapsed() < Duration::from_mins(10), "a name that doesn't come back is given up");
        }
        let nameless = RULE.joins(&group).await;
        RULE.drive("sharing", &[&nameless, &two], |_| nameless.assigned().len() == 2).await;
        RULE.within("leaving", nameless.leave()).await;
        RULE.drive("without a name it is at once", &[&two], |_| two.assigned().len() == 4).await;
    }
}
