use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::steps::{AWHILE, SECOND, SOON};
use crate::capability::{BoundDurable, Cursors, Pulled, Verdict};
use crate::conformance::Streams;
use crate::conformance::rule::Rule;
use crate::conformance::streams::entries::Entry;
use crate::conformance::streams::steps::{LONG, give_up};
use crate::stream::{Cursor, DurableSettings};

/// `cursor-one-in-flight`: nothing overtakes what is unsettled, refused or let go, over all who are bound.
pub async fn cursor_one_in_flight<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-one-in-flight");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..12).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new()).await;

    let held = RULE.hands("the first", &mut one, 0, 1).await;
    RULE.hands_nothing("while one is in flight elsewhere", &mut two, AWHILE).await;
    RULE.ok("acknowledging", held.ack()).await;
    let held = RULE.hands("the control: once it is settled", &mut two, 1, 1).await;
    RULE.hands_nothing("while one is in flight elsewhere", &mut one, AWHILE).await;
    RULE.ok("refusing", held.nak(2 * SECOND)).await;
    RULE.hands_nothing("while one waits for its next attempt", &mut one, AWHILE).await;
    let held = RULE.hands("what was refused comes first", &mut one, 1, 2).await;
    RULE.hands_nothing("while it is in flight again", &mut two, AWHILE).await;
    RULE.ok("refusing for ever", held.term("the suite's")).await;
    RULE.done("the control: once it is settled", &mut two, [2]).await;

    let [mut one, mut two] =
        RULE.two_cursors(&subject, &stream, "short", DurableSettings::new().ack_wait(2 * SECOND)).await;
    drop(RULE.hands("the first", &mut one, 0, 1).await);
    RULE.hands_nothing("while one was let go", &mut two, AWHILE).await;
    RULE.ok("acknowledging", RULE.hands("what was let go comes first", &mut two, 0, 2).await.ack()).await;
    RULE.done("the control: once it is settled", &mut two, [1]).await;

    // Whoever is first, each refused once.
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "race", DurableSettings::new()).await;
    let (held, seen) = (Cell::new(false), RefCell::new(Vec::new()));
    let both = async {
        tokio::join!(in_turn(RULE, &mut one, &held, &seen, 24), in_turn(RULE, &mut two, &held, &seen, 24));
    };
    RULE.within("two at once", both).await;
    let expected: Vec<_> = (0..12).flat_map(|n| [(n, 1), (n, 2)]).collect();
    RULE.same("what two were handed at once", seen.into_inner(), expected);
}

async fn in_turn<B: Cursors>(
    rule: Rule,
    cursor: &mut Cursor<Entry, B>,
    held: &Cell<bool>,
    seen: &RefCell<Vec<(u64, u32)>>,
    count: usize,
) {
    while seen.borrow().len() < count {
        let Some(next) = rule.ok("taking", cursor.next_within(SOON)).await else { continue };
        rule.that(!held.replace(true), "one is handed out while another is in flight");
        seen.borrow_mut().push((rule.number("taking", &next), next.attempt()));
        tokio::time::sleep(Duration::from_millis(2)).await;
        held.set(false);
        let settling = if next.attempt() == 1 { next.nak(Duration::ZERO) } else { next.ack() };
        rule.ok("settling", settling).await;
    }
}

/// `cursor-one-in-flight`: with more than one, at most so many are unsettled over all handles, those that wait for their
/// next attempt among them; those come before what is new, and that in order.
pub async fn cursor_shared<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-one-in-flight");
    let stream = RULE.entries(&subject).await;
    let durable = RULE.created(&stream, "d", DurableSettings::new().in_flight(4)).await;
    let far = RULE.far(&subject, "d");
    let told = RULE.fill(&stream, 0..8).await;
    let (one, two) = (RULE.handle(&durable).await, RULE.handle(&far).await);
    let new = |from: usize, to: usize| told[from..to].iter().map(|at| (*at, 1)).collect::<Vec<_>>();

    let mut held = RULE.pulls_each("the first", &[&one], &new(0, 2)).await;
    held.extend(RULE.pulls_each("shared with another", &[&two], &new(2, 4)).await);
    let full = async |what: &str| {
        for handle in [&one, &two] {
            RULE.same(what, RULE.pulls(what, handle, 8, AWHILE / 2).await.len(), 0);
        }
    };
    full("four are in flight").await;
    RULE.stands("four are in flight", &durable, (4, 4), None).await;

    RULE.settles("refusing", &two, vec![(held[3].clone(), Verdict::Nak(2 * SECOND))]).await;
    full("one of four waits for its next attempt").await;
    RULE.stands("it counts as in flight", &far, (4, 4), None).await;
    RULE.settles("acknowledging", &one, vec![(held[0].clone(), Verdict::Ack)]).await;
    held.extend(RULE.pulls_each("the control: there is room", &[&one, &two], &new(4, 5)).await);
    held[3] = RULE.pulls_each("what was refused", &[&one, &two], &[(told[3], 2)]).await.remove(0);
    full("four again").await;

    let verdicts = vec![(held[2].clone(), Verdict::Nak(Duration::ZERO)), (held[1].clone(), Verdict::Ack)];
    RULE.settles("refusing one and settling one", &one, verdicts).await;
    let expected = [(told[2], 2), (told[5], 1)];
    let more = RULE.pulls_each("what was refused before what is new", &[&two], &expected).await;
    RULE.stands("as far as it is settled", &durable, (2, 4), told[1]).await;
    let rest = [held[3].clone(), held[4].clone(), more[0].clone(), more[1].clone()];
    RULE.settles("all of them", &one, rest.map(|ticket| (ticket, Verdict::Ack)).to_vec()).await;
    let last = RULE.pulls_each("the rest", &[&one, &two], &new(6, 8)).await;
    RULE.settles("the rest", &two, last.into_iter().map(|ticket| (ticket, Verdict::Ack)).collect()).await;
    full("nothing is left").await;
    RULE.stands("all is settled", &far, (0, 0), told[7]).await;
}

/// `cursor-release`: what came for a call that was dropped, and nobody took, is others' at once when it is given back.
pub async fn cursor_release<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-release");
    const ROUNDS: u64 = 20;
    let stream = RULE.entries(&subject).await;
    let producer = RULE.bound(&subject);
    let durable = RULE.created(&stream, "d", DurableSettings::new().in_flight(4)).await;
    let stays = RULE.handle(&RULE.far(&subject, "d")).await;
    for n in 0..ROUNDS {
        let leaves = RULE.handle(&durable).await;
        drop(give_up(leaves.pull(4, LONG), n % 7).await);
        let told = RULE.fill(&producer, [2 * n, 2 * n + 1]).await;
        let mut taken = Vec::new();
        if let Some(pulled) = give_up(leaves.pull(1, LONG), n % 5).await {
            let pulled = pulled.unwrap_or_else(|failed| panic!("{}: taking: {failed:?}", RULE.0));
            for pulled in pulled {
                let Pulled::Delivery(stored, ticket) = pulled else { panic!("{}: a delivery", RULE.0) };
                taken.push(stored.position);
                RULE.settles("what was taken", &leaves, vec![(ticket, Verdict::Ack)]).await;
            }
        }
        RULE.within("giving back", leaves.release()).await;
        drop(leaves);
        RULE.within("others have it at once", async {
            while taken.len() < told.len() {
                for (stored, ticket) in RULE.pulls("what was given back", &stays, 4, SOON).await {
                    taken.push(stored.position);
                    RULE.settles("what was given back", &stays, vec![(ticket, Verdict::Ack)]).await;
                }
            }
        })
        .await;
        taken.sort_unstable_by_key(|at| at.offset());
        RULE.same("each once", taken, told);
    }
    // What isn't given back is held until its ack wait is over.
    let told = RULE.fill(&producer, 100..102).await;
    let leaves = RULE.handle(&durable).await;
    let held = RULE.pulls_each("taking", &[&leaves], &[(told[0], 1), (told[1], 1)]).await;
    RULE.within("giving back nothing", leaves.release()).await;
    RULE.same("the control: what was taken", RULE.pulls("nothing", &stays, 4, AWHILE).await.len(), 0);
    RULE.settles("what was taken", &stays, held.into_iter().map(|ticket| (ticket, Verdict::Ack)).collect()).await;
    RULE.stands("all is settled", &durable, (0, 0), told[1]).await;
}
