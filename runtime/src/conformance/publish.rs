use std::time::Duration;

use super::payloads::{Text, Tick};
use super::rule::{Rule, limits};
use super::{Counts, Network, Tap, Topics};
use crate::error::{ErrorKind, Outcome};

/// `topic-batch`: a batch keeps its order, is one operation, and answers for each message.
pub async fn topic_batch<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-batch");
    const SIZE: u64 = 100;
    let broker = RULE.broker_with(&subject, limits().operations(1).batch_messages(100).publish_bytes(64));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let mut subscription = RULE.ok("subscribing", topic.subscribe_keys(&0, &[1])).await;
    let events: Vec<_> = (0..SIZE).map(|n| (n % 2, Tick { n })).collect();
    // One place is enough for all of them.
    let outcomes = RULE.ok("a batch", topic.publish_all(events.iter().map(|(key, event)| (key, event)))).await;
    RULE.same("the outcomes of a batch", outcomes.len(), events.len());
    for outcome in outcomes {
        let counted = RULE.unwrap("a message of a batch", outcome).count();
        RULE.same("the count of a message", counted, (S::COUNTS != Counts::Nothing).then_some(1));
    }
    for (key, event) in &events {
        let (got, received) = RULE.next_keyed("the batch in its order", &mut subscription).await;
        RULE.same("the batch in its order", (&got, &received), (key, event));
    }

    // One that can't be encoded fails alone, in its place.
    let texts = RULE.unwrap("binding", Text::topic(&broker));
    let mut subscription = RULE.ok("subscribing", texts.subscribe(&1)).await;
    let batch = [Text::of(1), Text::of(100), Text::of(2)];
    let outcomes = RULE.ok("a batch", texts.publish_all(batch.iter().map(|text| (&1, text)))).await;
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(crate::Error::kind)).collect();
    RULE.same("a batch with one too large", kinds, [None, Some(ErrorKind::TooLarge), None]);
    RULE.same("the one before", RULE.next("the one before", &mut subscription).await, Text::of(1));
    RULE.same("the one behind", RULE.next("the one behind", &mut subscription).await, Text::of(2));

    let none: [(&u64, &Tick); 0] = [];
    RULE.same("an empty batch", RULE.ok("an empty batch", topic.publish_all(none)).await.len(), 0);
    let too_many = (0..=SIZE).map(|_| (&1, &Tick { n: 0 })).collect::<Vec<_>>();
    let refused = RULE.fails("a batch too large", topic.publish_all(too_many)).await;
    RULE.same("a batch too large", (refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotApplied));

    // Out of reach, each fails by itself; the control is above.
    let fresh = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    subject.refuse(true).await;
    let pair = [(&1, &Tick { n: 0 }), (&2, &Tick { n: 1 })];
    let outcomes = RULE.ok("a batch out of reach", fresh.publish_all(pair)).await;
    for outcome in outcomes {
        let failed = RULE.unwrap_err("a message out of reach", outcome);
        RULE.same("its outcome", failed.outcome(), Outcome::NotApplied);
    }
}

/// `topic-publish-once`: what succeeded went out once, what was not applied never does.
pub async fn topic_publish_once<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-publish-once");
    let topic = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let mut tap = RULE.within("tapping", subject.tap(&format!("{}.1", topic.address()))).await;
    let mut expected = Vec::new();
    for n in 0..20 {
        RULE.ok("publishing", topic.publish(&1, &Tick { n })).await;
        expected.push(n);
    }
    let texts = RULE.unwrap("binding", Text::topic(&RULE.broker_with(&subject, limits().publish_bytes(64))));
    let refused = RULE.fails("a payload too large", texts.publish(&1, &Text::of(100))).await;
    RULE.same("a payload too large", (refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied));

    // A client that never reached the system sent nothing.
    let fresh = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    subject.refuse(true).await;
    for n in 100..105 {
        let failed = RULE.fails("publishing out of reach", fresh.publish(&1, &Tick { n })).await;
        RULE.same("the outcome out of reach", failed.outcome(), Outcome::NotApplied);
        RULE.that(failed.is_transient(), "out of reach must be transient");
    }
    subject.refuse(false).await;
    // The same client again: what failed is not caught up on. The tap may have been lost with the connections.
    let mut again = RULE.within("tapping", subject.tap(&format!("{}.2", topic.address()))).await;
    RULE.ok("publishing again", fresh.publish(&2, &Tick { n: 106 })).await;
    RULE.ok("publishing again", fresh.publish(&1, &Tick { n: 107 })).await;
    expected.push(107);
    RULE.same("the control", n_of(&RULE.within("the control", again.next()).await), 106);
    for n in expected {
        RULE.same("what went over the wire", n_of(&RULE.within("each publish", tap.next()).await), n);
    }
}

fn n_of(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    text.trim_start_matches("{\"n\":").trim_end_matches('}').parse().unwrap_or(u64::MAX)
}

/// `topic-publish-once`: a publish whose reply is lost says `Unknown`, and went out once.
pub async fn topic_lost_reply<S: Topics + Network>(subject: S) {
    const RULE: Rule = Rule("topic-publish-once");
    let broker = RULE.broker_with(&subject, limits().timeout(Duration::from_millis(300)));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let mut tap = RULE.within("tapping", subject.tap(&format!("{}.1", topic.address()))).await;
    // The control: with replies it is told as done.
    RULE.ok("publishing", topic.publish(&1, &Tick { n: 0 })).await;
    subject.lose_replies(true).await;
    let failed = RULE.fails("publishing without a reply", topic.publish(&1, &Tick { n: 1 })).await;
    RULE.same("the outcome of a lost reply", failed.outcome(), Outcome::Unknown);
    let outcomes =
        RULE.ok("a batch without replies", topic.publish_all([(&1, &Tick { n: 2 }), (&1, &Tick { n: 3 })])).await;
    for outcome in outcomes {
        let failed = RULE.unwrap_err("a message without a reply", outcome);
        RULE.that(failed.is_transient(), "a lost reply must be transient");
    }
    subject.lose_replies(false).await;
    RULE.eventually("publishing works again", async || topic.publish(&1, &Tick { n: 4 }).await.is_ok()).await;
    let mut seen = Vec::new();
    while seen.last() != Some(&4) {
        seen.push(n_of(&RULE.within("each publish", tap.next()).await));
    }
    RULE.same("what went over the wire of those known", &seen[..2], [0, 1]);
    let count = |n| seen.iter().filter(|seen| **seen == n).count();
    RULE.that([1, 2, 3].iter().all(|n| count(*n) <= 1), "nothing may go out twice");
}
