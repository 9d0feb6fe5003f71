use std::task::{Context, Waker};
use std::time::Duration;

use super::payloads::{Impostor, Tick, TickMore, TickV2};
use super::rule::{Rule, limits, poll_once};
use super::{PATIENCE, Topics};
use crate::address::Namespace;
use crate::broker::{Broker, Brokers, Config, Limits};
use crate::codec::Json;
use crate::declaration::{Declaration, TopicSpec};
use crate::error::{ErrorKind, Operation, Outcome};
use crate::topic::Topic;

/// `broker-no-io`: building a broker and binding do no I/O and spawn nothing.
pub async fn broker_no_io<S: Topics>(subject: S) {
    const RULE: Rule = Rule("broker-no-io");
    subject.refuse(true).await;
    // On a thread without a runtime, where spawning and I/O panic.
    let built = std::thread::scope(|scope| {
        let built = scope.spawn(|| {
            let broker = RULE.broker(&subject);
            let topic = RULE.unwrap("binding", Tick::topic(&broker));
            (broker, topic)
        });
        built.join()
    });
    let Ok((broker, topic)) = built else { panic!("broker-no-io: building needs a runtime, so it spawns or does I/O") };
    RULE.same("tasks after building", broker.stats().tasks, 0);
    RULE.same("operations after building", broker.stats().operations, 0);
    RULE.that(broker.stats() == RULE.broker(&subject).stats(), "a fresh broker's stats must all be zero");

    // The control: the first operation is what needs the system.
    let failed = RULE.fails("publishing without the system", topic.publish(&1, &Tick { n: 1 })).await;
    RULE.same("the outcome of a publish that reached nobody", failed.outcome(), Outcome::NotApplied);
    RULE.that(failed.is_transient(), "a system out of reach must be transient");
    let failed = RULE.fails("checking without the system", broker.check(PATIENCE)).await;
    RULE.same("the operation of a failed check", failed.operation(), Operation::Check);
    subject.refuse(false).await;
    RULE.ok("publishing with the system", topic.publish(&1, &Tick { n: 1 })).await;
    let checked = RULE.ok("checking with the system", broker.check(PATIENCE)).await;
    RULE.that(!checked.server.is_empty(), "a check must name the server");
}

struct Misnamed;

impl TopicSpec for Misnamed {
    type Key = ();
    type Codec = Json;
    const DECLARATION: Declaration = Declaration::topic("conformance.v3", 1);
}

/// `bind-once`: the same declaration gives the same topic, another type under its name is refused.
pub async fn bind_once<S: Topics>(subject: S) {
    const RULE: Rule = Rule("bind-once");
    let broker = RULE.broker_with(&subject, limits().declarations(2));
    let once = RULE.unwrap("binding", Tick::topic(&broker));
    let twice = RULE.unwrap("binding again", Tick::topic(&broker));
    RULE.that(std::sync::Arc::ptr_eq(&once.bound, &twice.bound), "binding twice must give the same topic");
    let refused = RULE.unwrap_err("another type under one name", Impostor::topic(&broker));
    RULE.same("another type under one name", refused.kind(), ErrorKind::Duplicate);
    RULE.that(!refused.is_transient(), "a duplicate must be permanent");
    let refused = RULE.unwrap_err("a name out of its grammar", Topic::<Misnamed, _>::bind(&broker));
    RULE.same("a name out of its grammar", refused.kind(), ErrorKind::Invalid);
    RULE.unwrap("the control: another version", TickV2::topic(&broker));
    let refused = RULE.unwrap_err("one declaration too many", TickMore::topic(&broker));
    RULE.same("one declaration too many", refused.kind(), ErrorKind::Overloaded);
    RULE.unwrap("the control: another broker", Impostor::topic(&RULE.broker(&subject)));
}

/// `admission`: operations wait in order for a free place and no longer than they may; subscriptions don't wait.
pub async fn admission<S: Topics>(subject: S) {
    const RULE: Rule = Rule("admission");
    let broker = RULE.broker_with(&subject, limits().operations(1));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let shared = broker.inner.host.shared();

    // In order: each can only start when the one before it has its place.
    let held = shared.admit().await.ok();
    let mut tap = RULE
        .ok("subscribing elsewhere", {
            let other = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
            async move { other.subscribe(&1).await }
        })
        .await;
    let mut waiting: Vec<_> = (0..20).map(|n| Box::pin(topic.publish(&1, &Tick { n }))).collect();
    for publish in &mut waiting {
        let pending = publish.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        RULE.that(pending, "a publish must wait while every place is taken");
    }
    drop(held);
    // The last is asked first, so that the order isn't that of asking.
    let mut waiting: Vec<_> = waiting.into_iter().rev().collect();
    RULE.within(
        "the waiting publishes",
        all(&mut waiting, |result| {
            RULE.unwrap("a publish that waited", result);
        }),
    )
    .await;
    for n in 0..20 {
        RULE.same("the order of those who waited", RULE.next("an event", &mut tap).await.n, n);
    }

    // No longer than the timeout.
    let impatient = RULE.broker_with(&subject, limits().operations(1).timeout(Duration::from_millis(50)));
    let topic = RULE.unwrap("binding", Tick::topic(&impatient));
    let held = impatient.inner.host.shared().admit().await.ok();
    let refused = RULE.fails("publishing without a place", topic.publish(&1, &Tick { n: 0 })).await;
    RULE.same("a place that never came free", refused.kind(), ErrorKind::Overloaded);
    RULE.same("its outcome", refused.outcome(), Outcome::NotApplied);
    RULE.that(refused.is_transient(), "an overload must be transient");

    // Closing releases who waits.
    let mut patient = Box::pin(topic.publish(&1, &Tick { n: 0 }));
    RULE.that(poll_once(patient.as_mut()).is_pending(), "a publish must wait while every place is taken");
    let closing = impatient.close(PATIENCE);
    let (waited, closed) = RULE
        .within("closing with one waiting", async {
            tokio::join!(
                async {
                    let waited = patient.await;
                    drop(held);
                    waited
                },
                closing
            )
        })
        .await;
    RULE.same("who waited when the broker closed", RULE.unwrap_err("waiting", waited).kind(), ErrorKind::Closed);
    RULE.unwrap("closing", closed);

    // Subscriptions at capacity fail at once.
    let broker = RULE.broker_with(&subject, limits().subscriptions(2));
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let first = RULE.ok("the first subscription", topic.subscribe(&1)).await;
    let _second = RULE.ok("the second subscription", topic.subscribe(&1)).await;
    match poll_once(topic.subscribe(&2)) {
        std::task::Poll::Ready(refused) => {
            let refused = RULE.unwrap_err("a subscription too many", refused);
            RULE.same("a subscription too many", refused.kind(), ErrorKind::Overloaded);
        }
        std::task::Poll::Pending => panic!("admission: a subscription at capacity must fail at once"),
    }
    RULE.within("closing a subscription", first.close()).await;
    RULE.ok("the control: one place came free", topic.subscribe(&2)).await;
}

/// Awaits all, in whatever order they get ready.
async fn all<F: Future + Unpin>(futures: &mut [F], mut done: impl FnMut(F::Output)) {
    let mut ready = vec![false; futures.len()];
    std::future::poll_fn(|cx| {
        for (future, ready) in futures.iter_mut().zip(&mut ready) {
            if !*ready && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(cx) {
                *ready = true;
                done(output);
            }
        }
        if ready.iter().all(|ready| *ready) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// `stats-true`: what runs is counted, and nothing is left after a close.
pub async fn stats_true<S: Topics>(subject: S) {
    const RULE: Rule = Rule("stats-true");
    let broker = RULE.broker(&subject);
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let zero = broker.stats();
    RULE.same("live at first", zero.live, 0);
    RULE.same("operations at first", zero.operations, 0);
    RULE.that(!zero.closing, "a broker starts open");

    let one = RULE.ok("subscribing", topic.subscribe(&1)).await;
    let two = RULE.ok("subscribing", topic.subscribe_keys(&1, &[2])).await;
    RULE.same("live with two", broker.stats().live, 2);
    RULE.same("in set-up after set-up", broker.stats().setting_up, 0);
    RULE.ok("publishing", topic.publish(&1, &Tick { n: 1 })).await;
    RULE.same("operations after a publish", broker.stats().operations, 0);
    {
        let place = broker.inner.host.shared().admit().await;
        RULE.same("operations with one", broker.stats().operations, 1);
        drop(place);
    }
    RULE.within("closing a subscription", one.close()).await;
    RULE.same("live after a close", broker.stats().live, 1);
    drop(two);
    RULE.eventually("a dropped subscription drains", async || {
        let stats = broker.stats();
        RULE.same("live after a drop", stats.live, 0);
        stats.draining == 0
    })
    .await;

    let held = RULE.ok("subscribing", topic.subscribe(&1)).await;
    RULE.ok("closing", broker.close(PATIENCE)).await;
    let left = broker.stats();
    RULE.that(left.closing, "a closed broker must say so");
    let counts = [left.operations, left.setting_up, left.live, left.draining, left.callbacks, left.tasks];
    RULE.same("what is left after a close", counts, [0; 6]);
    drop(held);
    let again = broker.stats();
    RULE.same("what is left after the last handle", again.live + again.draining + again.tasks, 0);
}

/// `brokers`: a registry of 1 to 128 named brokers, one of them the default.
pub async fn brokers<S: Topics>(subject: S) {
    const RULE: Rule = Rule("brokers");
    let broker = || RULE.broker(&subject);
    let main = broker();
    let registry = Brokers::builder("main").add("main", main.clone()).add("a_b-9", broker()).add("0", broker()).build();
    let registry = RULE.unwrap("a good registry", registry);
    RULE.same("the names, sorted", registry.names().collect::<Vec<_>>(), ["0", "a_b-9", "main"]);
    let held: Option<&Broker<S::Backend>> = registry.get("main");
    RULE.that(
        held.is_some_and(|held| std::ptr::eq(&raw const *held.inner, &raw const *main.inner)),
        "a name must give the broker that was added",
    );
    RULE.that(
        held.is_some_and(|held| std::ptr::eq(held, registry.default_broker())),
        "the default and its name must be one instance",
    );
    RULE.that(registry.get("other").is_none(), "a name that isn't there gives nothing");

    let refused = Brokers::builder("main").add("main", broker()).add("main", broker()).build();
    RULE.same("a name twice", RULE.unwrap_err("a name twice", refused).kind(), ErrorKind::Invalid);
    let refused = Brokers::builder("other").add("main", broker()).build();
    RULE.same("no default", RULE.unwrap_err("no default", refused).kind(), ErrorKind::Invalid);
    for name in ["", "Main", "a.b", "-a", &"a".repeat(128)] {
        let refused = Brokers::builder("main").add("main", broker()).add(name, broker()).build();
        RULE.same("a bad name", RULE.unwrap_err("a bad name", refused).kind(), ErrorKind::Invalid);
    }
    for (count, good) in [(128, true), (129, false)] {
        let builder = Brokers::builder("b0");
        let builder = (0..count).fold(builder, |builder, n| builder.add(format!("b{n}"), main.clone()));
        RULE.that(builder.build().is_ok() == good, &format!("{count} brokers"));
    }
    let namespace = Namespace::new("conformance", "test").expect("the name is good");
    let bad = Limits::default().buffer_messages(0).timeout(Duration::ZERO);
    let refused = Broker::new(subject.backend(), Config::new(namespace).limits(bad));
    let refused = RULE.unwrap_err("limits out of bounds", refused);
    let said = refused.to_string();
    RULE.that(said.contains("`buffer_messages`") && said.contains("`timeout`"), "every bad limit must be named");
}
