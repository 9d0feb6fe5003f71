use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::payloads::Tick;
use super::rule::{Rule, limits};
use super::{Counts, Network, Topics};
use crate::capability::PubSub;
use crate::error::Cause;
use crate::topic::Topic;

/// `topic-shared-connection`: handles don't end each other, an unsubscribe in flight doesn't undo a new subscription,
/// and a cancelled set-up harms nobody and leaves nothing.
pub async fn topic_shared_connection<S: Topics>(subject: S) {
    const RULE: Rule = Rule("topic-shared-connection");
    let (here, there) = (RULE.broker(&subject), RULE.broker(&subject));
    let topic = RULE.unwrap("binding", Tick::topic(&here));
    let publisher = RULE.unwrap("binding", Tick::topic(&there));

    // Two handles on one key: dropping one leaves the other.
    let first = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut second = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut keyed = RULE.ok("subscribing", topic.subscribe_keys(&1, &[2])).await;
    RULE.within("closing one of two", first.close()).await;
    RULE.ok("publishing", publisher.publish(&1, &Tick { n: 1 })).await;
    RULE.same("the other handle", RULE.next("the other handle", &mut second).await.n, 1);
    drop(second);
    RULE.ok("publishing", publisher.publish(&1, &Tick { n: 2 })).await;
    for n in [1, 2] {
        RULE.same("the last handle", RULE.next_keyed("the last handle", &mut keyed).await, (1, Tick { n }));
    }
    RULE.within("closing the last", keyed.close()).await;

    // Subscribing again while the unsubscribe is under way.
    for n in 0..50 {
        let mut subscription = RULE.ok("subscribing again", topic.subscribe(&3)).await;
        RULE.ok("publishing", publisher.publish(&3, &Tick { n })).await;
        RULE.same("subscribed again", RULE.next("subscribed again", &mut subscription).await.n, n);
        drop(subscription);
    }

    // Set-ups that are dropped after any number of steps, beside one on the same key that stays.
    let mut staying = RULE.ok("subscribing", topic.subscribe(&4)).await;
    for n in 0..40 {
        for key in [4, 5] {
            give_up(&topic, key, n % 10).await;
        }
        let mut joined = RULE.ok("subscribing after a cancelled set-up", topic.subscribe(&5)).await;
        RULE.ok("publishing", publisher.publish(&4, &Tick { n })).await;
        RULE.ok("publishing", publisher.publish(&5, &Tick { n })).await;
        RULE.same("beside a cancelled set-up", RULE.next("the one that stays", &mut staying).await.n, n);
        RULE.same("after a cancelled set-up", RULE.next("the next one", &mut joined).await.n, n);
    }
    RULE.eventually("cancelled set-ups are gone", async || {
        let stats = here.stats();
        stats.live == 1 && stats.setting_up + stats.draining == 0
    })
    .await;
    if S::COUNTS != Counts::Nothing {
        RULE.eventually("nothing is left of cancelled set-ups", async || {
            RULE.ok("publishing", publisher.publish(&5, &Tick { n: 0 })).await.count() == Some(0)
        })
        .await;
        let control = RULE.ok("publishing", publisher.publish(&4, &Tick { n: 0 })).await;
        RULE.same("the control: the one that stays", control.count(), Some(1));
    }
}

/// Begins to subscribe and gives it up after so many steps.
async fn give_up<B: PubSub>(topic: &Topic<Tick, B>, key: u64, steps: u64) {
    let mut set_up = pin!(topic.subscribe(&key));
    for _ in 0..steps {
        if set_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// `topic-shared-connection`: subscriptions share one connection, opened with the first and closed with the last.
pub async fn topic_one_connection<S: Topics + Network>(subject: S) {
    const RULE: Rule = Rule("topic-shared-connection");
    let broker = RULE.broker(&subject);
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    RULE.ok("publishing", topic.publish(&1, &Tick { n: 1 })).await;
    RULE.same("connections before", subject.subscribed_connections().await, 0);
    for _ in 0..3 {
        let mut subscriptions = Vec::new();
        for key in 0..10 {
            subscriptions.push(RULE.ok("subscribing", topic.subscribe(&key)).await);
        }
        RULE.same("connections with ten", subject.subscribed_connections().await, 1);
        let last = subscriptions.pop();
        drop(subscriptions);
        RULE.eventually("nine are gone", async || broker.stats().draining == 0).await;
        RULE.same("connections with one", subject.subscribed_connections().await, 1);
        drop(last);
        RULE.eventually("the connection is closed with the last", async || subject.subscribed_connections().await == 0)
            .await;
    }
    // A set-up that is dropped after any number of steps leaves nothing that would hold the connection.
    for steps in 0..20 {
        give_up(&topic, 9, steps).await;
    }
    RULE.eventually("nothing is left of cancelled set-ups", async || subject.subscribed_connections().await == 0).await;
    // The control: another broker has a connection of its own.
    let other = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let _one = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let _two = RULE.ok("subscribing", other.subscribe(&1)).await;
    RULE.same("connections of two brokers", subject.subscribed_connections().await, 2);
}

/// `topic-liveness`: a peer that answers nothing is noticed within two heartbeats.
pub async fn topic_liveness<S: Topics + Network>(subject: S) {
    const RULE: Rule = Rule("topic-liveness");
    /// What a busy machine may add.
    const SLACK: Duration = Duration::from_millis(500);
    let heartbeat = Duration::from_millis(250);
    let broker = RULE.broker_with(&subject, limits().heartbeat(heartbeat));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let mut one = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let mut two = RULE.ok("subscribing", topic.subscribe_keys(&2, &[3])).await;
    // The control: idle, but alive.
    let idle = tokio::time::timeout(4 * heartbeat, one.receive()).await;
    RULE.that(idle.is_err(), "an idle subscription must not end");
    RULE.ok("publishing", topic.publish(&1, &Tick { n: 1 })).await;
    RULE.same("after idling", RULE.next("after idling", &mut one).await.n, 1);

    subject.silence(true).await;
    let since = Instant::now();
    RULE.ends("a silent peer", &mut one, Cause::Disconnected).await;
    let noticed = since.elapsed();
    let ended = RULE.fails("a silent peer", two.receive()).await;
    RULE.same("every subscription ends", ended.cause(), Some(Cause::Disconnected));
    RULE.that(noticed <= 2 * heartbeat + SLACK, &format!("noticed after {noticed:?}, with {heartbeat:?} between"));
    subject.silence(false).await;
    RULE.eventually("subscribing works again", async || topic.subscribe(&1).await.is_ok()).await;
}
