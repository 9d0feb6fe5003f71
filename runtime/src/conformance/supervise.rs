use std::time::Duration;

use tokio::sync::mpsc;

use super::payloads::{Note, Place, Tick, Visit};
use super::rule::{Rule, limits};
use super::{PATIENCE, Topics};
use crate::capability::PatternPubSub;
use crate::error::{Cause, Error, ErrorKind};
use crate::topic::{Ended, Gap, Stop, SupervisePolicy, Topic};

/// What a supervision told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Event(u64),
    Gap(Cause, u32),
}

fn quick() -> SupervisePolicy {
    SupervisePolicy::default().initial(Duration::from_millis(2)).max(Duration::from_millis(20))
}

/// Publishes 1, 2, .. until the supervision tells something, and returns it.
async fn next_told<S: Topics>(
    rule: Rule,
    publisher: &Topic<Tick, S::Backend>,
    n: &mut u64,
    told: &mut mpsc::UnboundedReceiver<Told>,
) -> Told {
    rule.within("the supervision tells something", async {
        loop {
            *n += 1;
            // The publisher may have lost its connection too.
            let _ = publisher.publish(&1, &Tick { n: *n }).await;
            match tokio::time::timeout(Duration::from_millis(5), told.recv()).await {
                Ok(Some(told)) => return told,
                Ok(None) => panic!("{}: the supervision ended by itself", rule.0),
                Err(_) => {}
            }
        }
    })
    .await
}

/// Publishes until the supervision tells a gap, past what came before it.
async fn next_gap<S: Topics>(
    rule: Rule,
    publisher: &Topic<Tick, S::Backend>,
    n: &mut u64,
    told: &mut mpsc::UnboundedReceiver<Told>,
) -> (Cause, u32) {
    rule.within("a gap is told", async {
        loop {
            if let Told::Gap(cause, attempts) = next_told::<S>(rule, publisher, n, told).await {
                return (cause, attempts);
            }
            // So that time passes, paused or not.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

#[allow(clippy::disallowed_methods, reason = "a callback must not wait for the test, and a test's events are few")]
fn log() -> (mpsc::UnboundedSender<Told>, mpsc::UnboundedReceiver<Told>) {
    mpsc::unbounded_channel()
}

/// `supervise-gap`: after an interruption the gap is told, once, with its cause and attempts, before anything else.
pub async fn supervise_gap<S: Topics>(subject: S) {
    const RULE: Rule = Rule("supervise-gap");
    let topic = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let publisher = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let (sender, mut told) = log();
    let stop = Stop::new();
    let supervision = topic.supervise(&1, quick()).with(sender).until(&stop).run(
        async |event: Tick, log| Ok(log.send(Told::Event(event.n))?),
        async |gap: Gap, log| Ok(log.send(Told::Gap(gap.cause, gap.attempts))?),
    );
    let script = async {
        let mut n = 0;
        for interruption in ["none", "short", "none", "long"] {
            let first = next_told::<S>(RULE, &publisher, &mut n, &mut told).await;
            RULE.that(
                matches!(first, Told::Event(_)),
                &format!("the control: an event comes without a gap, not {first:?}"),
            );
            match interruption {
                "short" => subject.interrupt().await,
                "long" => {
                    subject.refuse(true).await;
                    subject.interrupt().await;
                    // Long enough for some attempts; more are fine.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    subject.refuse(false).await;
                }
                _ => continue,
            }
            // What came before the interruption may still be on its way.
            let (cause, attempts) = next_gap::<S>(RULE, &publisher, &mut n, &mut told).await;
            RULE.same("the cause of a gap", cause, Cause::Disconnected);
            RULE.that(
                (attempts > 0) == (interruption == "long"),
                &format!("{attempts} attempts in a {interruption} gap"),
            );
        }
        let first = next_told::<S>(RULE, &publisher, &mut n, &mut told).await;
        RULE.that(matches!(first, Told::Event(_)), "delivery must resume");
        stop.stop();
    };
    let (ended, ()) = tokio::join!(supervision, script);
    RULE.same("the end", RULE.unwrap("supervising", ended), Ended::Stopped);

    a_first_subscribe_that_fails(RULE, &subject).await;
    an_overflow_is_a_gap(RULE, &subject).await;
}

async fn a_first_subscribe_that_fails<S: Topics>(rule: Rule, subject: &S) {
    subject.refuse(true).await;
    let topic =
        rule.unwrap("binding", Tick::topic(&rule.broker_with(subject, limits().timeout(Duration::from_secs(1)))));
    let (sender, mut told) = log();
    let stop = Stop::new();
    let supervision = topic.supervise(&1, quick()).with(sender).until(&stop).run(
        async |event: Tick, log| Ok(log.send(Told::Event(event.n))?),
        async |gap: Gap, log| Ok(log.send(Told::Gap(gap.cause, gap.attempts))?),
    );
    let script = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        rule.that(told.try_recv().is_err(), "nothing is told before a subscription is ready");
        subject.refuse(false).await;
        let publisher = rule.unwrap("binding", Tick::topic(&rule.broker(subject)));
        let first = next_told::<S>(rule, &publisher, &mut 0, &mut told).await;
        let counted = matches!(first, Told::Gap(Cause::Disconnected, attempts) if attempts > 0);
        rule.that(
            counted,
            &format!("a first subscribe that fails counts as an interruption, but {first:?} came first"),
        );
        stop.stop();
    };
    let (ended, ()) = tokio::join!(supervision, script);
    rule.same("the end", rule.unwrap("supervising", ended), Ended::Stopped);
}

async fn an_overflow_is_a_gap<S: Topics>(rule: Rule, subject: &S) {
    let topic = rule.unwrap("binding", Tick::topic(&rule.broker_with(subject, limits().buffer_messages(1))));
    let publisher = rule.unwrap("binding", Tick::topic(&rule.broker(subject)));
    let (sender, mut told) = log();
    let stop = Stop::new();
    let supervision = topic.supervise(&1, quick()).with((sender, publisher.clone())).until(&stop).run(
        // A handler that publishes to its own topic, over its buffer, must not wait for itself.
        async |event: Tick, (log, publisher): (mpsc::UnboundedSender<Told>, Topic<Tick, S::Backend>)| {
            if event.n < 1_000 {
                for n in 1_000..1_010 {
                    publisher.publish(&1, &Tick { n }).await?;
                }
            }
            Ok(log.send(Told::Event(event.n))?)
        },
        async |gap: Gap, (log, _)| Ok(log.send(Told::Gap(gap.cause, gap.attempts))?),
    );
    let script = async {
        let mut n = 0;
        let gap = next_gap::<S>(rule, &publisher, &mut n, &mut told).await;
        rule.same("the gap of an overflow", gap, (Cause::Overflow, 0));
        stop.stop();
    };
    let (ended, ()) = tokio::join!(supervision, script);
    rule.same("the end", rule.unwrap("supervising", ended), Ended::Stopped);
}

/// `supervise-ends`: it ends by its token, its broker or a callback, and for nothing that passes.
pub async fn supervise_ends<S: Topics>(subject: S) {
    const RULE: Rule = Rule("supervise-ends");
    let publisher = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));

    // A callback's error is kept; a panic is one.
    for (panics, kind) in [(false, ErrorKind::Callback), (true, ErrorKind::Panicked)] {
        let topic = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
        let supervision = topic.supervise(&1, quick()).with(panics).run(
            async |_, panics| {
                assert!(!panics, "the test's own panic");
                Err("the test's own error".into())
            },
            async |_, _| Ok(()),
        );
        let failed = RULE.unwrap_err("a callback that fails", drive::<S, _>(RULE, &publisher, supervision).await);
        RULE.same("a callback that fails", failed.kind(), kind);
        let source = std::error::Error::source(&failed).map(ToString::to_string);
        let said = if panics { failed.to_string() } else { source.unwrap_or_default() };
        RULE.that(said.contains("the test's own"), &format!("what a callback said must be kept, not `{said}`"));
    }

    // A failing gap callback is the same.
    subject.refuse(true).await;
    let topic = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let supervision =
        topic.supervise(&1, quick()).run(async |_, ()| Ok(()), async |_, ()| Err("the test's own error".into()));
    let (ended, ()) = RULE
        .within("a failing gap callback", async {
            tokio::join!(supervision, async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                subject.refuse(false).await;
            })
        })
        .await;
    RULE.same("a gap callback that fails", RULE.unwrap_err("a failing gap", ended).kind(), ErrorKind::Callback);

    // A stop lets the callback finish; a broker's close doesn't.
    for closes in [false, true] {
        let broker = RULE.broker(&subject);
        let topic = RULE.unwrap("binding", Tick::topic(&broker));
        let stop = Stop::new();
        let (sender, mut told) = log();
        let supervision = topic.supervise(&1, quick()).with((stop.clone(), sender)).until(&stop).run(
            async |_, (stop, log)| {
                log.send(Told::Event(1))?;
                stop.stopped().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
                log.send(Told::Event(2))?;
                Ok(())
            },
            async |_, _| Ok(()),
        );
        let script = async {
            RULE.same("the callback", next_told::<S>(RULE, &publisher, &mut 0, &mut told).await, Told::Event(1));
            if closes {
                RULE.ok("closing", broker.close(PATIENCE)).await;
            } else {
                stop.stop();
            }
        };
        let (ended, ()) = RULE.within("ending", async { tokio::join!(supervision, script) }).await;
        let expected = if closes { Ended::Closed } else { Ended::Stopped };
        RULE.same("how it ended", RULE.unwrap("ending", ended), expected);
        RULE.same("whether the callback finished", told.try_recv().is_ok(), !closes);
    }

    // What no retry helps ends it at once.
    let broker = RULE.broker_with(&subject, limits().key_bytes(8));
    let notes = RULE.unwrap("binding", Note::topic(&broker));
    let key = "much too long".to_owned();
    let supervision = notes.supervise(&key, quick()).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    RULE.same("a key too long", RULE.fails("a key too long", supervision).await.kind(), ErrorKind::Invalid);
    let policy = quick().initial(Duration::ZERO);
    let supervision = publisher.supervise(&1, policy).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    RULE.same("a bad policy", RULE.fails("a bad policy", supervision).await.kind(), ErrorKind::Invalid);
}

/// Publishes until the supervision has ended.
async fn drive<S: Topics, F>(rule: Rule, publisher: &Topic<Tick, S::Backend>, supervision: F) -> Result<Ended, Error>
where
    F: Future<Output = Result<Ended, Error>>,
{
    let publish = async {
        loop {
            let _ = publisher.publish(&1, &Tick { n: 1 }).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    rule.within("the supervision ends", async {
        tokio::select! {
            ended = supervision => ended,
            () = publish => unreachable!("it loops"),
        }
    })
    .await
}

/// `supervise-ends`: the form for several keys gives each event its key.
pub async fn supervise_forms<S: Topics>(subject: S) {
    const RULE: Rule = Rule("supervise-ends");
    let topic = RULE.unwrap("binding", Tick::topic(&RULE.broker(&subject)));
    let stop = Stop::new();
    let supervision = topic.supervise_keys(&2, &[1], quick()).with(stop.clone()).until(&stop).run(
        async |(key, _): (u64, Tick), stop| {
            stop.stop();
            if key == 1 { Ok(()) } else { Err("another key".into()) }
        },
        async |_, _| Ok(()),
    );
    let ended = drive::<S, _>(RULE, &topic, supervision).await;
    RULE.same("several keys", RULE.unwrap("several keys", ended), Ended::Stopped);
    let supervision = topic.supervise_keys(&1, &[1], quick()).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    RULE.same("a key twice", RULE.fails("a key twice", supervision).await.kind(), ErrorKind::Invalid);
}

/// `supervise-ends`: the forms for every key and for those below a prefix.
pub async fn supervise_patterns<S: Topics<Backend: PatternPubSub>>(subject: S) {
    const RULE: Rule = Rule("supervise-ends");
    let broker = RULE.broker(&subject);
    let topic = RULE.unwrap("binding", Tick::topic(&broker));
    let stop = Stop::new();
    let supervision = topic.supervise_all(quick()).with(stop.clone()).until(&stop).run(
        async |(key, _): (u64, Tick), stop| {
            stop.stop();
            if key == 1 { Ok(()) } else { Err("another key".into()) }
        },
        async |_, _| Ok(()),
    );
    let ended = drive::<S, _>(RULE, &topic, supervision).await;
    RULE.same("every key", RULE.unwrap("every key", ended), Ended::Stopped);

    let visits = RULE.unwrap("binding", Visit::topic(&broker));
    let stop = Stop::new();
    let supervision = visits.supervise_under(("acme",), quick()).with(stop.clone()).until(&stop).run(
        async |(place, _): (Place, Visit), stop| {
            stop.stop();
            if place.tenant == "acme" { Ok(()) } else { Err("another tenant".into()) }
        },
        async |_, _| Ok(()),
    );
    let script = async {
        while !stop.is_stopped() {
            for tenant in ["acme2", "acme"] {
                RULE.ok("publishing", visits.publish(&Place::new(tenant, 1, "a"), &Visit { n: 1 })).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (ended, ()) = RULE.within("below a prefix", async { tokio::join!(supervision, script) }).await;
    RULE.same("below a prefix", RULE.unwrap("below a prefix", ended), Ended::Stopped);
}
