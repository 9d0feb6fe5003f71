use std::time::Duration;

use super::Streams;
use super::steps::{HOUR, places};
use crate::capability::AckGroups;
use crate::conformance::rule::Rule;
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, StreamSettings};

/// `ack-claim`: a claim moves what has been idle long enough, the oldest first, counts it and starts its clock anew.
pub async fn ack_claim<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-claim");
    /// Long enough that what was just claimed isn't idle so long by the next call.
    const IDLE: Duration = Duration::from_millis(700);
    let stream = RULE.entries(&subject).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two, three) =
        (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"), RULE.consumer(&group, "three"));
    let told = RULE.fill(&stream, 0..6).await;
    RULE.claims("nothing is pending", &two, Duration::ZERO, 10, []).await;
    RULE.takes("reading", &one, 5, 0..5).await;
    RULE.claims("nothing has been idle so long", &two, HOUR, 10, []).await;
    RULE.idles(&group, IDLE).await;
    // In pages, the oldest first; each page once, since its clock begins anew.
    let first = RULE.claims("the oldest first", &two, IDLE, 2, [0, 1]).await;
    RULE.claims("then the next", &two, IDLE, 2, [2, 3]).await;
    RULE.claims("then the last", &two, IDLE, 2, [4]).await;
    RULE.claims("and all are fresh", &two, IDLE, 2, []).await;
    RULE.same("where they stand", places(&first), &told[..2]);
    RULE.that(first.iter().all(|delivery| delivery.attempt() == 2), "a claim counts as a delivery");
    let pending = RULE.ok("listing", group.pending(None, 10)).await;
    let listed: Vec<_> = pending.iter().map(|entry| (&*entry.consumer, entry.attempt)).collect();
    RULE.same("whose they are", listed, [("two", 2); 5]);
    // The old owner has them no longer; what is new goes on as before.
    let own = RULE.ok("history", one.history(None, 10)).await;
    RULE.same("the old owner's history", own.deliveries.len(), 0);
    RULE.takes("what is new", &one, 10, [5]).await;

    // What is settled isn't claimed; what is left counts on.
    RULE.ok("acknowledging", two.ack([told[0], told[2], told[4]])).await;
    let left = RULE.claims("what is left", &three, Duration::ZERO, 10, [1, 3, 5]).await;
    let attempts: Vec<_> = left.iter().map(crate::Delivery::attempt).collect();
    RULE.same("attempts", attempts, [3, 3, 2]);
    // One's own, too, and repeated it gets to all of them.
    let mut seen = Vec::new();
    for _ in 0..6 {
        let claimed = RULE.ok("claiming one by one", three.claim(Duration::ZERO, 1)).await;
        RULE.that(claimed.deliveries.len() <= 1, "at most what was asked for");
        seen.extend(RULE.numbers("claiming one by one", &claimed.deliveries));
    }
    seen.sort_unstable();
    seen.dedup();
    RULE.same("repeated claims get to all", seen, [1, 3, 5]);
    RULE.takes("the control: nothing is new", &one, 10, []).await;
}

/// `ack-claim`: entries that were trimmed away while they were pending are reported, not hidden, and pending no longer.
pub async fn ack_claim_lost<S: Streams<Backend: AckGroups>>(subject: S) {
    const RULE: Rule = Rule("ack-claim");
    let stream = RULE.entries_of(&subject, StreamSettings::new().max_len(1)).await;
    let group = RULE.group::<S>(&stream, "g").await;
    let (one, two, three) =
        (RULE.consumer(&group, "one"), RULE.consumer(&group, "two"), RULE.consumer(&group, "three"));
    let mut told = Vec::new();
    // Read one by one, since each may push the one before out.
    for n in 0..4 {
        told.extend(RULE.fill(&stream, [n]).await);
        RULE.takes("reading", if n < 2 { &one } else { &two }, 1, [n]).await;
    }
    let first = RULE.overrun(&subject, &stream, told[3]).await;
    // What was removed unread is told apart from what was pending.
    let unread = RULE.fails("reading", three.read(1, Duration::ZERO)).await;
    RULE.same("the first left", unread.first_left(), Some(first));
    let kept = RULE.ok("reading", three.read(1, Duration::ZERO)).await;
    RULE.same("the first left is the next", places(&kept), [first]);

    // Handing them over would hide them.
    let refused = RULE.fails("removing a consumer", group.remove_consumer("two", Some("three"))).await;
    RULE.refused("removing a consumer", &refused, ErrorKind::Conflict);
    RULE.same("its outcome", refused.outcome(), Outcome::NotApplied);

    // By a claim for one of them, by a history for the other.
    let own = RULE.ok("history", two.history(None, 10)).await;
    RULE.same("a history's losses", (own.deliveries.len(), own.lost), (0, told[2..].to_vec()));
    let mut lost = Vec::new();
    let mut claimed = Vec::new();
    for _ in 0..4 {
        let taken = RULE.ok("claiming", two.claim(Duration::ZERO, 10)).await;
        lost.extend(taken.lost);
        claimed.extend(places(&taken.deliveries));
    }
    lost.sort_by_key(|position| position.offset());
    RULE.same("a claim's losses, told once", lost, &told[..2]);
    RULE.that(claimed.contains(&first), "the control: what is there is claimed");
    RULE.that(claimed.iter().all(|position| *position == first), "nothing else is");
    let pending = RULE.ok("listing", group.pending(None, 10)).await;
    let positions: Vec<Position> = pending.iter().map(|entry| entry.position).collect();
    RULE.same("what is still pending", positions, [first]);
    RULE.same("what is told hinders no removal", RULE.ok("removing", group.remove_consumer("one", None)).await, 0);
    RULE.same("a loss isn't settled again", RULE.ok("acknowledging", one.ack(told)).await, 0);
}
