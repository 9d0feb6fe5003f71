use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::payloads::Tick;
use super::rule::Rule;
use super::{PATIENCE, Topics};
use crate::error::{Cause, ErrorKind, Outcome};
use crate::topic::{Ended, SupervisePolicy};

/// `close-waits`: a close ends everything, waits for it or says what is left, and can be called by anyone but a
/// callback.
pub async fn close_waits<S: Topics>(subject: S) {
    const RULE: Rule = Rule("close-waits");
    everything_ends(RULE, &subject).await;
    what_is_left_is_named(RULE, &subject).await;
    not_from_a_callback(RULE, &subject).await;
}

async fn everything_ends<S: Topics>(rule: Rule, subject: &S) {
    let broker = rule.broker(subject);
    let topic = rule.unwrap("binding", Tick::topic(&broker));
    let other = rule.unwrap("binding", Tick::topic(&rule.broker(subject)));
    let mut subscription = rule.ok("subscribing", topic.subscribe(&1)).await;
    let mut apart = rule.ok("subscribing elsewhere", other.subscribe(&1)).await;
    let (entered, mut entries) = mpsc::channel(16);
    let stuck = topic.supervise(&2, SupervisePolicy::default()).with(entered).run(
        async |_, entered| {
            let _ = entered.send(()).await;
            std::future::pending::<()>().await;
            Ok(())
        },
        async |_, _| Ok(()),
    );
    let publish_until_stuck = async {
        while entries.try_recv().is_err() {
            rule.ok("publishing", other.publish(&2, &Tick { n: 1 })).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rule.ok("publishing", other.publish(&1, &Tick { n: 1 })).await;
        rule.same("the neighbour", rule.next("an event", &mut apart).await.n, 1);
        rule.same("before the close", rule.next("an event", &mut subscription).await.n, 1);
        let (one, two) = tokio::join!(broker.close(PATIENCE), broker.close(PATIENCE));
        rule.unwrap("closing with a stuck callback", one);
        rule.unwrap("closing at once by another", two);
    };
    let (ended, ()) =
        rule.within("closing with a stuck callback", async { tokio::join!(stuck, publish_until_stuck) }).await;
    rule.same("how a supervision ends with its broker", rule.unwrap("supervising", ended), Ended::Closed);
    rule.ends("a subscription of a closed broker", &mut subscription, Cause::Closed).await;

    let refused = rule.fails("publishing after a close", topic.publish(&1, &Tick { n: 2 })).await;
    rule.same("a publish after a close", (refused.kind(), refused.outcome()), (ErrorKind::Closed, Outcome::NotApplied));
    let refused = rule.fails("subscribing after a close", topic.subscribe(&1)).await;
    rule.same("a subscribe after a close", refused.kind(), ErrorKind::Closed);
    let refused = rule.fails("checking after a close", broker.check(PATIENCE)).await;
    rule.same("a check after a close", refused.kind(), ErrorKind::Closed);
    rule.ok("closing again", broker.close(PATIENCE)).await;

    // The control: another broker on the same system goes on.
    rule.ok("publishing elsewhere", other.publish(&1, &Tick { n: 3 })).await;
    rule.same("the control", rule.next("an event elsewhere", &mut apart).await.n, 3);
    rule.silent("a closed broker's neighbour", &mut apart);
}

async fn what_is_left_is_named<S: Topics>(rule: Rule, subject: &S) {
    let broker = rule.broker(subject);
    let release = Arc::new(Notify::new());
    let released = release.clone();
    broker.inner.host.spawn("a stubborn task", async move { released.notified().await });
    let left = rule.fails("closing with a stubborn task", broker.close(Duration::from_millis(50))).await;
    rule.same("a close that couldn't", left.kind(), ErrorKind::StillRunning);
    rule.that(left.to_string().contains("a stubborn task"), "a close that couldn't must name what is left");
    release.notify_one();
    rule.ok("the control: closing once it is gone", broker.close(PATIENCE)).await;
}

async fn not_from_a_callback<S: Topics>(rule: Rule, subject: &S) {
    let broker = rule.broker(subject);
    let other = rule.broker(subject);
    let topic = rule.unwrap("binding", Tick::topic(&broker));
    let inside = topic.supervise(&3, SupervisePolicy::default()).with((broker.clone(), other.clone())).run(
        async |_, (broker, other)| {
            other.close(PATIENCE).await?;
            Ok(broker.close(PATIENCE).await?)
        },
        async |_, _| Ok(()),
    );
    let publish = async {
        while !other.stats().closing {
            rule.ok("publishing", topic.publish(&3, &Tick { n: 1 })).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (ended, ()) = rule.within("closing from a callback", async { tokio::join!(inside, publish) }).await;
    let failed = rule.unwrap_err("closing from a callback", ended);
    rule.same("a callback that failed", failed.kind(), ErrorKind::Callback);
    let source = std::error::Error::source(&failed).and_then(|source| source.downcast_ref::<crate::Error>());
    rule.same("why", source.map(crate::Error::kind), Some(ErrorKind::Reentrant));
    rule.that(other.stats().closing, "the control: another broker can be closed from a callback");
    rule.ok("closing from outside", broker.close(PATIENCE)).await;
}
