use std::time::Duration;

use tokio::time::Instant;

use super::steps::{AWHILE, Mine, SECOND, SOON};
use crate::capability::Cursors;
use crate::conformance::payloads::Place;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::steps::{LONG, all, give_up};
use crate::conformance::{PATIENCE, Streams};
use crate::error::ErrorKind;
use crate::stream::{DurableInfo, DurableSettings, Start, StreamSettings};

/// What a durable is set up with, but for where it began.
fn set_up(info: DurableInfo) -> DurableSettings {
    info.settings.start(Start::Earliest)
}

/// `cursor-ensure`: ensure creates the durable, once among many; one that is there stays where it is, and has no other
/// settings.
pub async fn cursor_ensure<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-ensure");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..4).await;
    let settings = DurableSettings::new().ack_wait(20 * SECOND).max_deliver(9);
    let brokers: Vec<Mine<S>> = (0..6).map(|_| RULE.far(&subject, "d")).collect();
    let races: Vec<_> = brokers.iter().map(|durable| durable.ensure(settings.clone())).collect();
    let created = RULE.within("many at once", all(races)).await;
    let created: Vec<_> = created.into_iter().map(|created| RULE.unwrap("many at once", created)).collect();
    RULE.that(created.contains(&true), "somebody created it");
    RULE.same("its settings", set_up(RULE.info(&brokers[0]).await), settings.clone());

    let mut cursor = RULE.cursor(&brokers[1]).await;
    RULE.done("it begins", &mut cursor, [0]).await;
    let held = RULE.hands("one in flight", &mut cursor, 1, 1).await;
    for durable in &brokers[2..] {
        for start in [Start::Earliest, Start::Latest, Start::from(told[2])] {
            let created = RULE.ok("ensured again", durable.ensure(settings.clone().start(start))).await;
            RULE.same("whatever the start, it is there", created, false);
        }
        RULE.stands("it stays where it is", durable, (2, 1), told[0]).await;
    }
    let others = [
        settings.clone().in_flight(2),
        settings.clone().ack_wait(21 * SECOND),
        settings.clone().max_deliver(10),
        DurableSettings::new().ack_wait(20 * SECOND),
        DurableSettings::new().max_deliver(9).backoff([SECOND, 2 * SECOND]),
        settings.clone().under::<Place>(("eu",)),
    ];
    for other in others {
        let refused = RULE.fails("with other settings", brokers[2].ensure(other.clone())).await;
        RULE.refused(&format!("with other settings: {other:?}"), &refused, ErrorKind::Conflict);
    }
    RULE.same("its settings stay", set_up(RULE.info(&brokers[3]).await), settings.clone());
    RULE.ok("acknowledging", held.ack()).await;
    RULE.done("it goes on where it was", &mut cursor, [2]).await;
    // The control: removed, it is created anew, where it is told to begin.
    RULE.that(RULE.ok("removing", brokers[4].delete()).await, "it was there");
    let created = RULE.ok("creating anew", brokers[5].ensure(settings.start(told[0]))).await;
    RULE.that(created, "what was removed is created anew");
    let mut cursor = RULE.cursor(&brokers[5]).await;
    RULE.done("the control: anew", &mut cursor, 1..4).await;
}

/// `cursor-update`: an update changes the settings of a durable, where it can; what is unsettled stays so.
pub async fn cursor_update<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-update");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..4).await;
    let [mut one, mut two] = RULE.two_cursors(&subject, &stream, "d", DurableSettings::new()).await;
    let far = RULE.far(&subject, "d");
    RULE.done("before", &mut one, [0]).await;
    let held = RULE.hands("one in flight", &mut one, 1, 1).await;
    // Where it begins counts no longer.
    let settings = DurableSettings::new().ack_wait(25 * SECOND).max_deliver(7).start(Start::Latest);
    RULE.ok("changing", far.update(settings)).await;
    let settings = DurableSettings::new().ack_wait(25 * SECOND).max_deliver(7);
    RULE.same("its settings", set_up(RULE.info(&far).await), settings.clone());
    RULE.hands_nothing("nothing overtakes what is unsettled", &mut two, AWHILE).await;
    // What it asked for isn't answered any more once its broker was.
    drop(two);
    RULE.stands("what is unsettled stays so", &far, (2, 1), told[0]).await;
    RULE.ok("acknowledging", held.ack()).await;
    RULE.stands("settled", &far, (2, 0), told[1]).await;
    let refused = RULE.fails("what it was before", far.ensure(DurableSettings::new())).await;
    RULE.refused("what it was before", &refused, ErrorKind::Conflict);
    RULE.same("what it is now", RULE.ok("ensuring", far.ensure(settings.clone())).await, false);

    // More in flight is nothing for a cursor; one is, again.
    RULE.ok("changing", far.update(settings.clone().in_flight(4))).await;
    let refused = RULE.fails("a cursor where nothing is kept from overtaking", far.cursor()).await;
    RULE.refused("a cursor where nothing is kept from overtaking", &refused, ErrorKind::Conflict);
    let handle = RULE.handle(&far).await;
    let tickets = RULE.pulls_each("two at once", &[&handle], &[(told[2], 1), (told[3], 1)]).await;
    RULE.stands("two at once", &far, (0, 2), told[1]).await;
    drop((handle, tickets));
    RULE.ok("changing back", far.update(settings)).await;
    RULE.stands("what is unsettled stays so", &far, (0, 2), told[1]).await;
    RULE.ok("the control: a cursor", far.cursor()).await;

    // A shorter ack wait is the next delivery's.
    let durable = RULE.created(&stream, "wait", DurableSettings::new()).await;
    let mut cursor = RULE.cursor(&durable).await;
    RULE.ok("changing", durable.update(DurableSettings::new().ack_wait(SECOND))).await;
    let began = Instant::now();
    drop(RULE.hands("after the change", &mut cursor, 0, 1).await);
    RULE.ok("acknowledging", RULE.hands("after its new ack wait", &mut cursor, 0, 2).await.ack()).await;
    RULE.took("its new ack wait", began, SECOND);
}

/// `cursor-info`: what waits, what is in flight, and up to where everything is settled is told as it is.
pub async fn cursor_info<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-info");
    let stream = RULE.entries(&subject).await;
    let settings = DurableSettings::new().max_deliver(5).backoff([20 * SECOND, 30 * SECOND]);
    let durable = RULE.created(&stream, "d", settings.clone()).await;
    let far = RULE.far(&subject, "d");
    RULE.stands("of an empty stream", &far, (0, 0), None).await;
    let told = RULE.fill(&stream, 0..4).await;
    RULE.stands("of what nobody took", &far, (4, 0), None).await;
    let mut cursor = RULE.cursor(&durable).await;
    RULE.stands("of what nobody took", &far, (4, 0), None).await;
    let held = RULE.hands("the first", &mut cursor, 0, 1).await;
    RULE.stands("of one in flight", &far, (3, 1), None).await;
    RULE.ok("saying that it goes on", held.in_progress()).await;
    RULE.ok("refusing", held.nak(SECOND)).await;
    RULE.stands("of one that waits for its next attempt", &far, (3, 1), None).await;
    let held = RULE.hands("the first again", &mut cursor, 0, 2).await;
    RULE.stands("of a second attempt", &far, (3, 1), None).await;
    RULE.ok("acknowledging", held.ack()).await;
    RULE.stands("of what is settled", &far, (3, 0), told[0]).await;
    RULE.done("all but one", &mut cursor, 1..3).await;
    RULE.stands("of what is settled", &far, (1, 0), told[2]).await;
    let more = RULE.fill(&stream, 4..6).await;
    RULE.stands("of what is appended", &far, (3, 0), told[2]).await;
    RULE.done("the rest", &mut cursor, 3..6).await;
    RULE.stands("of a durable that is done", &far, (0, 0), more[1]).await;
    RULE.same("its settings", set_up(RULE.info(&far).await), settings);
    let late = RULE.created(&stream, "late", DurableSettings::new().start(told[2])).await;
    RULE.same("the control: of one that began late", RULE.info(&late).await.waiting, 3);
}

/// `stream-limits`: settings have their bounds, a wait its place among the operations, and `next` none.
pub async fn cursor_limits<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("stream-limits");
    let stream = RULE.bound_with(&subject, limits().groups(2));
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    let durable = RULE.created(&stream, "d", DurableSettings::new()).await;
    let least = Duration::from_millis(100);
    let bad = [
        DurableSettings::new().in_flight(0),
        DurableSettings::new().in_flight(65_537),
        DurableSettings::new().ack_wait(Duration::from_micros(99_999)),
        DurableSettings::new().ack_wait(Duration::MAX),
        DurableSettings::new().max_deliver(0),
        DurableSettings::new().max_deliver(1).backoff([least, least]),
        DurableSettings::new().backoff(vec![least; 65]),
        DurableSettings::new().backoff([Duration::ZERO]),
        DurableSettings::new().backoff([least]).ack_wait(SECOND),
    ];
    for bad in bad {
        for refused in [
            RULE.fails("creating out of bounds", durable.ensure(bad.clone())).await,
            RULE.fails("changing out of bounds", durable.update(bad.clone())).await,
        ] {
            RULE.refused(&format!("{bad:?}"), &refused, ErrorKind::Invalid);
        }
    }
    for good in [DurableSettings::new().ack_wait(least), DurableSettings::new().ack_wait(Duration::from_hours(24))] {
        RULE.ok("changing at a bound", durable.update(good)).await;
    }

    let broker = stream.broker();
    let mut cursor = RULE.cursor(&durable).await;
    RULE.that(give_up(cursor.next(), 50).await.is_none(), "it waits while there is nothing");
    RULE.same("what waits without end takes no place", broker.stats().operations, 0);
    let mut waiting = Box::pin(cursor.next_within(LONG));
    RULE.that(give_up(waiting.as_mut(), 50).await.is_none(), "it waits while there is nothing");
    RULE.same("what waits for a time takes a place", broker.stats().operations, 1);
    drop(waiting);
    RULE.eventually("until it is dropped", async || broker.stats().operations == 0).await;
    let began = Instant::now();
    RULE.hands_nothing("while there is nothing", &mut cursor, AWHILE).await;
    RULE.that(began.elapsed() >= AWHILE / 2, "it waits as long as asked");
    RULE.that(began.elapsed() < AWHILE + PATIENCE / 2, "it waits no longer than asked");
    RULE.hands_nothing("at once", &mut cursor, Duration::ZERO).await;
    RULE.fill(&stream, [1]).await;
    RULE.within("without a wait, too", async {
        loop {
            if let Some(next) = RULE.ok("at once", cursor.next_within(Duration::ZERO)).await {
                RULE.same("at once", RULE.number("at once", &next), 1);
                break;
            }
            tokio::time::sleep(SOON).await;
        }
    })
    .await;

    RULE.unwrap("the second durable", stream.durable(&RULE.module("e")));
    RULE.unwrap("the same again", stream.durable(&RULE.module("d")));
    let refused = RULE.unwrap_err("a durable too many", stream.durable(&RULE.module("f")));
    RULE.refused("a durable too many", &refused, ErrorKind::Overloaded);
}
