use super::Topics;
use super::payloads::{Note, Tick};
use super::rule::{Rule, limits};
use crate::error::{Cause, ErrorKind};
use crate::topic::{OnMalformed, SubscribeOptions};

/// `topic-malformed`: what doesn't decode ends the subscription, or is one error in its place.
pub async fn topic_malformed<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-malformed");
    let broker = RULE.broker(&subject);
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let options = SubscribeOptions::new().on_malformed(OnMalformed::Report);
    let reporting = RULE.unwrap("options", topic.with_options(options));
    let channel = format!("{}.1", topic.address());
    let deep = "[".repeat(10_000);
    let malformed: [&[u8]; 11] = [
        b"",
        b"{",
        b"{\"n\":1}{\"n\":2}",
        b"{\"n\":1,\"n\":2}",
        b"{\"n\":\"1\"}",
        b"{\"n\":-1}",
        b"{\"n\":18446744073709551616}",
        b"{}",
        b"\xff\xfe",
        b"{\"n\":1} x",
        deep.as_bytes(),
    ];
    for payload in malformed {
        let mut ending = RULE.ok("subscribing", topic.subscribe(&1)).await;
        let mut report = RULE.ok("subscribing", reporting.subscribe(&1)).await;
        let mut keyed = RULE.ok("subscribing", reporting.subscribe_keys(&1, &[2])).await;
        subject.publish_raw(&channel, b"{\"n\":1}").await;
        subject.publish_raw(&channel, payload).await;
        subject.publish_raw(&channel, b" {\"n\" : 2}\n").await;
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(30)]);
        RULE.same("before it", RULE.next("before it", &mut ending).await.n, 1);
        RULE.ends(&format!("`{shown}`"), &mut ending, Cause::Malformed).await;
        RULE.same("before it", RULE.next("before it", &mut report).await.n, 1);
        let reported = RULE.fails(&format!("`{shown}`"), report.receive()).await;
        RULE.same("the report", (reported.kind(), reported.cause()), (ErrorKind::Malformed, None));
        RULE.that(std::error::Error::source(&reported).is_some(), "a report must hold why");
        RULE.same("behind it", RULE.next("behind it", &mut report).await.n, 2);
        RULE.same("before it, keyed", RULE.next_keyed("before it", &mut keyed).await, (1, Tick { n: 1 }));
        RULE.fails("keyed", keyed.receive()).await;
        RULE.same("behind it, keyed", RULE.next_keyed("behind it", &mut keyed).await, (1, Tick { n: 2 }));
    }
    // The control: the same without the malformed one goes on.
    let mut ending = RULE.ok("subscribing", topic.subscribe(&1)).await;
    for payload in [&b"{\"n\":1}"[..], b" {\"n\" : 2}\n"] {
        subject.publish_raw(&channel, payload).await;
    }
    RULE.same("the control", RULE.next("the control", &mut ending).await.n, 1);
    RULE.same("the control", RULE.next("the control", &mut ending).await.n, 2);
}

/// `topic-keys`: one subscription over several keys, in order of arrival; what can't be subscribed to is refused.
pub async fn topic_keys<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-keys");
    let broker = RULE.broker_with(&subject, limits().channels(3).key_bytes(32));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let publisher = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let mut subscription = RULE.ok("subscribing to keys", topic.subscribe_keys(&1, &[2, 3])).await;
    for n in 0..90 {
        RULE.ok("publishing", publisher.publish(&(n * 7 % 5), &Tick { n })).await;
    }
    for n in (0..90).filter(|n| (1..4).contains(&(n * 7 % 5))) {
        let received = RULE.next_keyed("each key's event in order", &mut subscription).await;
        RULE.same("each key's event in order", received, (n * 7 % 5, Tick { n }));
    }
    let mut one = RULE.ok("subscribing to one key", topic.subscribe_keys(&9, [])).await;
    RULE.ok("publishing", publisher.publish(&9, &Tick { n: 1 })).await;
    RULE.same("one key", RULE.next_keyed("one key", &mut one).await, (9, Tick { n: 1 }));

    let refused = RULE.fails("a key twice", topic.subscribe_keys(&1, &[2, 1])).await;
    RULE.same("a key twice", refused.kind(), ErrorKind::Invalid);
    let refused = RULE.fails("too many keys", topic.subscribe_keys(&1, &[2, 3, 4])).await;
    RULE.same("too many keys", refused.kind(), ErrorKind::Invalid);
    let notes = RULE.unwrap("binding", Note::topic(&broker));
    for (bytes, good) in [(32, true), (33, false)] {
        let key = "k".repeat(bytes);
        let sent = RULE.within("publishing", notes.publish(&key, &Note { n: 1 })).await;
        let subscribed = RULE.within("subscribing", notes.subscribe(&key)).await;
        RULE.same("a key at its bound, published", sent.is_ok(), good);
        RULE.same("a key at its bound, subscribed", subscribed.is_ok(), good);
        if let Err(refused) = sent {
            RULE.same("a key over its bound", refused.kind(), ErrorKind::Invalid);
            RULE.that(!format!("{refused:?}").contains("kkk"), "an error must not hold the key");
        }
    }
}
