use super::payloads::{Depth, Flag, Glyph, Note, Place, Tick, TickMore, TickV2, Visit, Whole};
use super::rule::{Rule, limits};
use super::{Counts, Topics};
use crate::broker::Broker;
use crate::codec::{Decode, Encode};
use crate::declaration::TopicSpec;
use crate::key::{decode, encode};
use crate::topic::Topic;

/// Texts that a careless encoding merges, splits, or takes for a wildcard or a hash tag.
const TEXTS: [&str; 34] = [
    "", "%", "%25", "%FF", "%2E", ".", "..", "a", "A", "a.b", "a:b:c", "a:b", "a b", "a*", "a*b", "*", ">", "a?b",
    "a[1]", "a1", "a\\b", "a^b", "{}b", "{}c", "{a}b", "{{a}}", "x{a}{b}", "é", "e\u{301}", "감", "\u{0}", "\u{2028}",
    "🦀", "007",
];

/// `key-round-trip`: a key comes back as it was given, over the system; what no key encodes to is refused.
pub async fn key_round_trip<S: Topics>(subject: S) {
    const RULE: Rule = Rule("key-round-trip");
    let broker = RULE.broker(&subject);
    let texts: Vec<String> = TEXTS.iter().map(ToString::to_string).collect();
    come_back(RULE, &RULE.unwrap("binding", Note::topic(&broker)), &texts).await;
    let numbers = [0, 7, 10, u64::MAX];
    come_back(RULE, &RULE.unwrap("binding", Tick::topic(&broker)), &numbers).await;
    come_back(RULE, &RULE.unwrap("binding", Depth::topic(&broker)), &[i64::MIN, -1, 0, i64::MAX]).await;
    come_back(RULE, &RULE.unwrap("binding", Flag::topic(&broker)), &[true, false]).await;
    come_back(RULE, &RULE.unwrap("binding", Glyph::topic(&broker)), &['.', '*', 'a', '%', '感', '\u{0}']).await;
    come_back(RULE, &RULE.unwrap("binding", Whole::topic(&broker)), &[()]).await;
    let places = [
        Place::new("", 0, ""),
        Place::new("", -1, "a"),
        Place::new("a", -1, ""),
        Place::new("a.b", 1, "c"),
        Place::new("a", 1, "b.c"),
    ];
    come_back(RULE, &RULE.unwrap("binding", Visit::topic(&broker)), &places).await;

    for text in ["", "a", ".", ".a.b", ".a*", ".%2", ".%2e", ".%C3", ".%41", ".é", ".a b", "..", ".a."] {
        RULE.that(decode::<String>(text).is_err(), &format!("`{text}` is no key, and must be refused"));
    }
    for text in [".007", ".+7", ".-0", ".%37", ".7.8", "."] {
        RULE.that(decode::<u64>(text).is_err(), &format!("`{text}` is no number's text, and must be refused"));
    }
    RULE.that(decode::<String>(".a%2A").is_ok(), "the control: a canonical text must be read");
}

/// Publishes under every key and receives every key back.
async fn come_back<T, B>(rule: Rule, topic: &Topic<T, B>, keys: &[T::Key])
where
    T: TopicSpec + From<u64> + PartialEq + std::fmt::Debug,
    T::Codec: Encode<T> + Decode<T>,
    T::Key: PartialEq + std::fmt::Debug,
    B: crate::capability::PubSub,
{
    let mut subscription = rule.ok("subscribing to keys", topic.subscribe_keys(&keys[0], &keys[1..])).await;
    for (n, key) in (0..).zip(keys) {
        rule.ok("publishing", topic.publish(key, &T::from(n))).await;
    }
    for (n, key) in (0..).zip(keys) {
        let (got, event) = rule.next_keyed("a key's event", &mut subscription).await;
        rule.same("the event", event, T::from(n));
        rule.same("the key", &got, key);
        let mut text = String::new();
        encode(&got, &mut text);
        rule.that(decode::<T::Key>(&text).is_ok_and(|again| again == got), "a key's text must be read back");
    }
}

/// `key-injective`: distinct keys never share a channel, whatever they hold.
pub async fn key_injective<S: Topics>(subject: S) {
    const RULE: Rule = Rule("key-injective");
    let broker = RULE.broker(&subject);
    let notes = RULE.unwrap("binding", Note::topic(&broker));
    let keys: Vec<String> = TEXTS.iter().map(ToString::to_string).collect();
    each_hears_its_own(RULE, &notes, &keys).await;

    let visits = RULE.unwrap("binding", Visit::topic(&broker));
    let places = [
        Place::new("133", 7, ""),
        Place::new("13", 37, ""),
        Place::new("", 7, "133"),
        Place::new("133.7", 7, ""),
        Place::new("133", 7, "."),
        Place::new("133", 7, "%"),
    ];
    each_hears_its_own(RULE, &visits, &places).await;

    // The control: one key is one channel.
    let mut first = RULE.ok("subscribing", notes.subscribe(&keys[9])).await;
    let mut second = RULE.ok("subscribing", notes.subscribe(&keys[9])).await;
    RULE.ok("publishing", notes.publish(&keys[9], &Note { n: 1 })).await;
    RULE.same("the control, one", RULE.next("the control", &mut first).await.n, 1);
    RULE.same("the control, two", RULE.next("the control", &mut second).await.n, 1);
}

/// Gives each key a subscription of its own, publishes once under each and then once more: none hears another's.
async fn each_hears_its_own<T, B>(rule: Rule, topic: &Topic<T, B>, keys: &[T::Key])
where
    T: TopicSpec + From<u64> + PartialEq + std::fmt::Debug,
    T::Codec: Encode<T> + Decode<T>,
    T::Key: std::fmt::Debug,
    B: crate::capability::PubSub,
{
    let mut subscriptions = Vec::new();
    for key in keys {
        subscriptions.push(rule.ok("subscribing", topic.subscribe(key)).await);
    }
    for round in [0, 1_000] {
        for (n, key) in (round..).zip(keys) {
            rule.ok("publishing", topic.publish(key, &T::from(n))).await;
        }
    }
    for ((n, key), subscription) in (0..).zip(keys).zip(&mut subscriptions) {
        for round in [0, 1_000] {
            let event = rule.next("a key's own event", subscription).await;
            rule.same(&format!("what the key {key:?} heard"), event, T::from(round + n));
        }
    }
}

/// `address-injective`: distinct namespace, name, version or key is another channel.
pub async fn address_injective<S: Topics>(subject: S) {
    const RULE: Rule = Rule("address-injective");
    let namespaces = [("a", "b"), ("a", "b-c"), ("a-b", "c"), ("b", "a"), ("a", "bb"), ("a", "topic")];
    let brokers: Vec<Broker<S::Backend>> =
        namespaces.iter().map(|(one, two)| RULE.broker_in(&subject, one, two, limits())).collect();
    let mut heard = Vec::new();
    for broker in &brokers {
        let tick = RULE.unwrap("binding", Tick::topic(broker));
        let v2 = RULE.unwrap("binding", TickV2::topic(broker));
        let more = RULE.unwrap("binding", TickMore::topic(broker));
        let subscriptions = (
            RULE.ok("subscribing", tick.subscribe(&1)).await,
            RULE.ok("subscribing", v2.subscribe(&1)).await,
            RULE.ok("subscribing", more.subscribe(&1)).await,
        );
        heard.push((tick, v2, more, subscriptions));
    }
    for round in [0, 1_000] {
        for (n, (tick, v2, more, _)) in (round..).zip(&heard) {
            let one = RULE.ok("publishing", tick.publish(&1, &Tick { n })).await;
            RULE.ok("publishing", v2.publish(&1, &TickV2 { n: n + 100 })).await;
            RULE.ok("publishing", more.publish(&1, &TickMore { n: n + 200 })).await;
            if S::COUNTS != Counts::Nothing {
                RULE.same("how many heard a channel that one subscribed to", one.count(), Some(1));
            }
        }
    }
    for (n, (.., (tick, v2, more))) in (0..).zip(&mut heard) {
        for round in [n, 1_000 + n] {
            RULE.same("a version's own", RULE.next("its own event", tick).await.n, round);
            RULE.same("the next version's own", RULE.next("its own event", v2).await.n, round + 100);
            RULE.same("the longer name's own", RULE.next("its own event", more).await.n, round + 200);
        }
    }
    // The control: the same namespace on another broker is the same channel.
    let again = RULE.unwrap("binding", Tick::topic(&RULE.broker_in(&subject, "a", "b", limits())));
    RULE.ok("publishing", again.publish(&1, &Tick { n: 7 })).await;
    RULE.same("the control", RULE.next("the control", &mut heard[0].3.0).await.n, 7);
}
