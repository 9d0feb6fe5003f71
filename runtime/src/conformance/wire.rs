use super::payloads::{Note, Place, Stay, Tick, TickMore, TickV2, Visit, Whole};
use super::rule::{Rule, limits};
use super::{Tap, Topics};
use crate::codec::{Decode, Encode};
use crate::declaration::TopicSpec;
use crate::topic::Topic;

const RULE: Rule = Rule("wire-vectors");

/// `wire-vectors`: channel and payload are, byte for byte, what the documentation says.
pub async fn wire_vectors<S: Topics>(subject: S) {
    let broker = RULE.broker_in(&subject, "shop", "prod", limits());
    let ticks = RULE.unwrap("binding", Tick::topic(&broker));
    for (key, channel) in [
        (0, "shop.prod.topic.conformance.tick.v1.0"),
        (42, "shop.prod.topic.conformance.tick.v1.42"),
        (u64::MAX, "shop.prod.topic.conformance.tick.v1.18446744073709551615"),
    ] {
        vector(&subject, &ticks, &key, Tick { n: key }, channel, &format!("{{\"n\":{key}}}")).await;
    }
    let next = RULE.unwrap("binding", TickV2::topic(&broker));
    vector(&subject, &next, &1, TickV2 { n: 2 }, "shop.prod.topic.conformance.tick.v2.1", "{\"n\":2}").await;
    let more = RULE.unwrap("binding", TickMore::topic(&broker));
    vector(&subject, &more, &1, TickMore { n: 2 }, "shop.prod.topic.conformance.tick.more.v1.1", "{\"n\":2}").await;
    let whole = RULE.unwrap("binding", Whole::topic(&broker));
    vector(&subject, &whole, &(), Whole { n: 2 }, "shop.prod.topic.conformance.whole.v1", "{\"n\":2}").await;

    let notes = RULE.unwrap("binding", Note::topic(&broker));
    for (key, segment) in [
        ("", "%"),
        ("a_B-9", "a_B-9"),
        ("a.b:c", "a%2Eb%3Ac"),
        ("%", "%25"),
        ("%FF", "%25FF"),
        ("a b", "a%20b"),
        ("é", "%C3%A9"),
        ("e\u{301}", "e%CC%81"),
        ("\u{0}\u{2028}🦀", "%00%E2%80%A8%F0%9F%A6%80"),
        ("*>?[a]{b}\\^", "%2A%3E%3F%5Ba%5D%7Bb%7D%5C%5E"),
    ] {
        let channel = format!("shop.prod.topic.conformance.note.v1.{segment}");
        vector(&subject, &notes, &key.to_owned(), Note { n: 1 }, &channel, "{\"n\":1}").await;
    }
    let visits = RULE.unwrap("binding", Visit::topic(&broker));
    let place = Place::new("ac.me", -3, "");
    let channel = "shop.prod.topic.conformance.visit.v1.ac%2Eme.-3.%";
    vector(&subject, &visits, &place, Visit { n: 1 }, channel, "{\"n\":1}").await;

    let stays = RULE.unwrap("binding", Stay::topic(&broker));
    let mut tap = RULE.within("tapping", subject.tap("shop.prod.topic.conformance.stay.v1.ac%2Eme.12")).await;
    let stay = Stay { tenant: "ac.me".to_owned(), room: 12 };
    RULE.ok("publishing", stays.publish(&stay)).await;
    let payload = RULE.within("the payload on the wire", tap.next()).await;
    RULE.same("a payload that holds its key", payload, b"{\"tenant\":\"ac.me\",\"room\":12}".to_vec());
}

/// One vector: out over the topic and in past it.
async fn vector<S, T>(subject: &S, topic: &Topic<T, S::Backend>, key: &T::Key, event: T, channel: &str, payload: &str)
where
    S: Topics,
    T: TopicSpec + Clone + PartialEq + std::fmt::Debug,
    T::Codec: Encode<T> + Decode<T>,
{
    let mut tap = RULE.within("tapping", subject.tap(channel)).await;
    let mut subscription = RULE.ok("subscribing", topic.subscribe(key)).await;
    RULE.ok("publishing", topic.publish(key, &event)).await;
    let sent = RULE.within(&format!("a payload on `{channel}`"), tap.next()).await;
    RULE.same("the payload", String::from_utf8_lossy(&sent), payload);
    RULE.same("what came back", RULE.next("the event", &mut subscription).await, event.clone());
    subject.publish_raw(channel, payload.as_bytes()).await;
    RULE.same("what came in", RULE.next("the raw event", &mut subscription).await, event.clone());
}
