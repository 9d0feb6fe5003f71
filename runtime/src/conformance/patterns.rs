use super::payloads::{Note, Place, Tick, TickMore, Visit, Whole};
use super::rule::{Rule, limits};
use super::{Counts, Topics};
use crate::capability::PatternPubSub;
use crate::error::{Cause, ErrorKind};
use crate::topic::{OnMalformed, SubscribeOptions};

/// `topic-keys`: subscriptions to every key and below a prefix get what lies below, decoded, and nothing beside it.
pub async fn topic_patterns<S: Topics<Backend: PatternPubSub>>(subject: S) {
    const RULE: Rule = Rule("topic-keys");
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let visits = RULE.unwrap("binding", Visit::topic(&here));
    let publisher = RULE.unwrap("binding", Visit::topic(&there));
    let mut every = RULE.ok("subscribing to all", visits.subscribe_all()).await;
    let mut acme = RULE.ok("subscribing under", visits.subscribe_under(("acme",))).await;
    let mut floor = RULE.ok("subscribing under", visits.subscribe_under(("acme", 1))).await;
    let mut glob = RULE.ok("subscribing under", visits.subscribe_under(("a*[1]?",))).await;
    let mut empty = RULE.ok("subscribing under", visits.subscribe_under(("",))).await;
    let places = [
        Place::new("acme", 1, "a"),
        Place::new("acme2", 1, "a"),
        Place::new("acm", 1, "a"),
        Place::new("acme.1", 1, "a"),
        Place::new("acme", 12, "a"),
        Place::new("acme", 1, ""),
        Place::new("a*[1]?", 1, "a"),
        Place::new("ab1c", 1, "a"),
        Place::new("", 1, "acme"),
        Place::new("acme", -1, "x.y"),
    ];
    for (n, place) in (0..).zip(&places) {
        RULE.ok("publishing", publisher.publish(place, &Visit { n })).await;
    }
    for (n, place) in (0..).zip(&places) {
        let received = RULE.next_keyed("every key", &mut every).await;
        RULE.same("every key", received, (place.clone(), Visit { n }));
    }
    let matched = [
        ("below a tenant", &mut acme, vec![0, 4, 5, 9]),
        ("below a floor", &mut floor, vec![0, 5]),
        ("below a prefix of glob characters", &mut glob, vec![6]),
        ("below the empty text", &mut empty, vec![8]),
    ];
    let end = Place::new("acme", 1, "end");
    RULE.ok("publishing", publisher.publish(&end, &Visit { n: 99 })).await;
    for (what, subscription, expected) in matched {
        for n in expected {
            let received = RULE.next_keyed(what, subscription).await;
            RULE.same(what, received.1.n, n);
        }
    }
    RULE.same("nothing else below a tenant", RULE.next_keyed("the end", &mut acme).await.1.n, 99);
    RULE.same("nothing else below a floor", RULE.next_keyed("the end", &mut floor).await.1.n, 99);

    // A topic of one channel is that channel, and a longer name isn't below a shorter one.
    let whole = RULE.unwrap("binding", Whole::topic(&here));
    let mut all = RULE.ok("subscribing to all of one", whole.subscribe_all()).await;
    RULE.ok("publishing", whole.publish(&(), &Whole { n: 5 })).await;
    RULE.same("all of one", RULE.next_keyed("all of one", &mut all).await, ((), Whole { n: 5 }));
    let ticks = RULE.unwrap("binding", Tick::topic(&here));
    let more = RULE.unwrap("binding", TickMore::topic(&here));
    let elsewhere = RULE.unwrap("binding", Tick::topic(&RULE.broker_in(&subject, "conformance", "tes", limits())));
    let mut all = RULE.ok("subscribing to all", ticks.subscribe_all()).await;
    RULE.ok("publishing", more.publish(&1, &TickMore { n: 1 })).await;
    RULE.ok("publishing", elsewhere.publish(&1, &Tick { n: 2 })).await;
    RULE.ok("publishing", ticks.publish(&1, &Tick { n: 3 })).await;
    RULE.same("no topic beside", RULE.next_keyed("its own", &mut all).await, (1, Tick { n: 3 }));

    // What lies deeper is no key of this topic; what lies there and is no key is malformed.
    let options = SubscribeOptions::new().on_malformed(OnMalformed::Report);
    let reporting = RULE.unwrap("options", ticks.with_options(options));
    let mut reported = RULE.ok("subscribing to all", reporting.subscribe_all()).await;
    for key in ["1.2", "01", "4"] {
        subject.publish_raw(&format!("{}.{key}", ticks.address()), b"{\"n\":4}").await;
    }
    let failed = RULE.fails("a key that isn't canonical", reported.receive()).await;
    RULE.same("a key that isn't canonical", failed.kind(), ErrorKind::Malformed);
    RULE.same("behind it", RULE.next_keyed("behind it", &mut reported).await.0, 4);
    let ended = RULE.fails("a key that isn't canonical", all.receive()).await;
    RULE.same("a key that isn't canonical", ended.cause(), Some(Cause::Malformed));
}

/// `topic-keys`: exact and pattern subscriptions that overlap each get one copy, and don't end each other.
pub async fn topic_patterns_overlap<S: Topics<Backend: PatternPubSub>>(subject: S) {
    const RULE: Rule = Rule("topic-keys");
    let broker = RULE.broker(&subject);
    let notes = RULE.unwrap("binding", Note::topic(&broker));
    let key = "a.b".to_owned();
    let mut exact = RULE.ok("subscribing", notes.subscribe(&key)).await;
    let first = RULE.ok("subscribing to all", notes.subscribe_all()).await;
    let mut second = RULE.ok("subscribing to all", notes.subscribe_all()).await;
    let expect = async |what: &str, n: u64, subscriptions: u64, deliveries: u64| {
        let heard = RULE.ok("publishing", notes.publish(&key, &Note { n })).await;
        let expected = match S::COUNTS {
            Counts::Subscriptions => Some(subscriptions),
            Counts::Deliveries => Some(deliveries),
            Counts::Nothing => None,
        };
        RULE.same(what, heard.count(), expected);
    };
    expect("the count with exact and pattern", 1, 3, 2).await;
    RULE.within("closing one of two patterns", first.close()).await;
    expect("the count with one pattern closed", 2, 2, 2).await;
    for n in [1, 2] {
        RULE.same("exact", RULE.next("exact", &mut exact).await.n, n);
        RULE.same("pattern", RULE.next_keyed("pattern", &mut second).await.1.n, n);
    }
    RULE.silent("an exact one must get one copy", &mut exact);
    RULE.within("closing the exact one", exact.close()).await;
    expect("the count with the exact one closed", 3, 1, 1).await;
    let mut exact = RULE.ok("subscribing again", notes.subscribe(&key)).await;
    RULE.same("pattern alone", RULE.next_keyed("pattern", &mut second).await.1.n, 3);
    RULE.within("closing the last pattern", second.close()).await;
    expect("the count with the exact one alone", 4, 1, 1).await;
    RULE.same("exact alone", RULE.next("exact", &mut exact).await.n, 4);

    // Interrupted, a pattern ends as any other.
    let mut every = RULE.ok("subscribing to all", notes.subscribe_all()).await;
    subject.interrupt().await;
    let ended = RULE.fails("a pattern after an interruption", every.receive()).await;
    RULE.same("a pattern after an interruption", ended.cause(), Some(Cause::Disconnected));
}
