use super::payloads::{Note, Tick, TickV2};
use super::rule::{Rule, limits};
use super::{Counts, Topics};
use crate::topic::Subscription;

/// `topic-ready`: once `subscribe` has returned, the next publish by anyone is received.
pub async fn topic_ready<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-ready");
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let (heard, told) = (RULE.unwrap("binding", Tick::topic(&here)), RULE.unwrap("binding", Tick::topic(&there)));
    let channel = format!("{}.7", heard.address());
    for n in 0..50 {
        let mut subscription = RULE.ok("subscribing", heard.subscribe(&7)).await;
        if n % 2 == 0 {
            RULE.ok("publishing", told.publish(&7, &Tick { n })).await;
        } else {
            subject.publish_raw(&channel, format!("{{\"n\":{n}}}").as_bytes()).await;
        }
        RULE.same("the publish after the set-up", RULE.next("the publish after", &mut subscription).await.n, n);
        // The control: what was published before isn't heard. A key of its own, since what an older subscription of the
        // same client would still have got may reach a new one.
        let key = 100 + n;
        RULE.ok("publishing before", told.publish(&key, &Tick { n: 1_000 })).await;
        let mut later = RULE.ok("subscribing later", heard.subscribe(&key)).await;
        RULE.ok("publishing", told.publish(&key, &Tick { n })).await;
        RULE.same("the control", RULE.next("the control", &mut later).await.n, n);
        let mut many = RULE.ok("subscribing to keys", heard.subscribe_keys(&1, &[2, 3, 4])).await;
        for key in 1..5 {
            RULE.ok("publishing", told.publish(&key, &Tick { n })).await;
        }
        for key in 1..5 {
            let (got, event) = RULE.next_keyed("every key's publish", &mut many).await;
            RULE.same("every key is ready", (got, event.n), (key, n));
        }
    }
}

/// `topic-fan-out`: every subscription gets its own copy, in the system's order, and nothing of others.
pub async fn topic_fan_out<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-fan-out");
    const EACH: u64 = 200;
    let (one, two) = (RULE.broker(&subject), RULE.broker(&subject));
    let (first, second) = (RULE.unwrap("binding", Tick::topic(&one)), RULE.unwrap("binding", Tick::topic(&two)));
    let mut subscriptions = vec![
        RULE.ok("subscribing", first.subscribe(&1)).await,
        RULE.ok("subscribing", first.subscribe(&1)).await,
        RULE.ok("subscribing", second.subscribe(&1)).await,
    ];
    // Those who must get nothing: another key, version, topic, application, environment.
    let foreign = RULE.unwrap("binding", Tick::topic(&RULE.broker_in(&subject, "conformance", "other", limits())));
    let stranger = RULE.unwrap("binding", Tick::topic(&RULE.broker_in(&subject, "other", "test", limits())));
    let newer = RULE.unwrap("binding", TickV2::topic(&one));
    let notes = RULE.unwrap("binding", Note::topic(&one));
    let mut other_key = RULE.ok("subscribing", first.subscribe(&2)).await;
    let mut other_version = RULE.ok("subscribing", newer.subscribe(&1)).await;
    let mut other_topic = RULE.ok("subscribing", notes.subscribe(&"1".to_owned())).await;
    let mut other_environment = RULE.ok("subscribing", foreign.subscribe(&1)).await;
    let mut other_application = RULE.ok("subscribing", stranger.subscribe(&1)).await;

    let publish = async |topic: &crate::Topic<Tick, S::Backend>, from: u64| {
        for n in from..from + EACH {
            RULE.ok("publishing", topic.publish(&1, &Tick { n })).await;
        }
    };
    tokio::join!(publish(&first, 0), publish(&second, EACH));

    let mut orders = Vec::new();
    for subscription in &mut subscriptions {
        orders.push(take(RULE, subscription, 2 * EACH).await);
    }
    if S::ONE_ORDER {
        RULE.that(orders[0] == orders[1], "two subscriptions of one broker must see one order");
        RULE.that(orders[0] == orders[2], "subscriptions of two brokers must see one order");
    }
    for (order, from) in orders.iter().flat_map(|order| [(order, 0), (order, EACH)]) {
        let own: Vec<_> = order.iter().copied().filter(|n| (from..from + EACH).contains(n)).collect();
        RULE.that(own == (from..from + EACH).collect::<Vec<_>>(), "each publisher's order must hold, once each");
    }
    // Nothing more came, and the others got only what is theirs.
    RULE.ok("publishing", first.publish(&1, &Tick { n: 9_999 })).await;
    for subscription in &mut subscriptions {
        RULE.same("the end", RULE.next("the end", subscription).await.n, 9_999);
    }
    RULE.ok("publishing", first.publish(&2, &Tick { n: 1 })).await;
    RULE.ok("publishing", newer.publish(&1, &TickV2 { n: 2 })).await;
    RULE.ok("publishing", notes.publish(&"1".to_owned(), &Note { n: 3 })).await;
    RULE.ok("publishing", foreign.publish(&1, &Tick { n: 4 })).await;
    RULE.ok("publishing", stranger.publish(&1, &Tick { n: 5 })).await;
    RULE.same("another key's", RULE.next("another key's", &mut other_key).await.n, 1);
    RULE.same("another version's", RULE.next("another version's", &mut other_version).await.n, 2);
    RULE.same("another topic's", RULE.next("another topic's", &mut other_topic).await.n, 3);
    RULE.same("another environment's", RULE.next("another environment's", &mut other_environment).await.n, 4);
    RULE.same("another application's", RULE.next("another application's", &mut other_application).await.n, 5);
    for subscription in &mut subscriptions {
        RULE.silent("what others published", subscription);
    }
}

async fn take<B: crate::capability::PubSub>(rule: Rule, from: &mut Subscription<Tick, B>, count: u64) -> Vec<u64> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(rule.next("every message", from).await.n);
    }
    taken
}

/// `topic-count`: publish returns what the authority counted.
pub async fn topic_count<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-count");
    let (one, two) = (RULE.broker(&subject), RULE.broker(&subject));
    let (first, second) = (RULE.unwrap("binding", Tick::topic(&one)), RULE.unwrap("binding", Tick::topic(&two)));
    let expect = async |what: &str, subscriptions: u64, connections: u64| {
        let expected = match S::COUNTS {
            Counts::Subscriptions => Some(subscriptions),
            Counts::Deliveries => Some(connections),
            Counts::Nothing => None,
        };
        let heard = RULE.ok("publishing", first.publish(&1, &Tick { n: 0 })).await;
        RULE.same(what, heard.count(), expected);
    };
    expect("with nobody", 0, 0).await;
    let a = RULE.ok("subscribing", first.subscribe(&1)).await;
    expect("with one", 1, 1).await;
    let b = RULE.ok("subscribing", first.subscribe(&1)).await;
    expect("with two on one broker", 2, 1).await;
    let c = RULE.ok("subscribing", second.subscribe_keys(&1, &[2])).await;
    expect("with another broker's", 3, 2).await;
    let _elsewhere = RULE.ok("subscribing", second.subscribe(&3)).await;
    expect("with one to another key", 3, 2).await;
    RULE.within("closing", a.close()).await;
    expect("with one of two closed", 2, 2).await;
    RULE.within("closing", b.close()).await;
    expect("with both closed", 1, 1).await;
    RULE.within("closing", c.close()).await;
    expect("with nobody left", 0, 0).await;
}
