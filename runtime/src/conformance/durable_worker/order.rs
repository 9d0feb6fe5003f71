use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::crew::{Takers, owner, partitions, wide};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, note};
use crate::stream::{Delivery, StreamSettings};
use crate::stream_spec;

const RULE: Rule = Rule("worker-order");
const KEYS: u64 = 6;
const COUNT: u64 = 240;

/// Work without a key.
#[stream_spec(name = "conformance.errand", version = 1, key = (), requires(cursors), crate = crate)]
#[derive(Serialize, Deserialize)]
struct Errand {
    n: u64,
}

/// `worker-order`: deliveries of one key are handled one at a time and in order, those of different keys at once. One that
/// failed comes again before what is behind it of its key.
pub async fn durable_worker_order<S: Streams<Backend: Cursors>>(subject: S) {
    for partitions in partitions::<S>() {
        keys_at_once::<S>(&subject, partitions).await;
        some_fail::<S>(&subject, partitions).await;
    }
    one_handler::<S>(&subject).await;
    batches::<S>(&subject).await;
    without_a_key::<S>(&subject).await;
}

async fn keys_at_once<S: Streams<Backend: Cursors>>(subject: &S, partitions: u32) {
    let crew = Takers::taking_with(RULE, subject, partitions, wide(), limits()).await;
    crew.append(0..COUNT, KEYS).await;
    let keys = usize::try_from(KEYS).expect("it is small");
    let worker = crew.taker("a").concurrency(2 * keys).run(move |delivery: Delivery<Work>, hand: Hand| async move {
        let doing = hand.begin(&delivery);
        // Comes to pass only where every key is under way at once.
        hand.journal.peaked(keys).await;
        tokio::task::yield_now().await;
        doing.done();
        Ok(())
    });
    let script = async {
        crew.handled(240).await;
        crew.leaves("everything is acknowledged", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    RULE.same("as many handlers run at once as there are keys", crew.journal.peak(), keys);
    crew.in_order(KEYS);
    crew.each_once("several handlers", 0..COUNT);
    RULE.same("the control: nothing failed", crew.retrying(), 0);
}

async fn some_fail<S: Streams<Backend: Cursors>>(subject: &S, partitions: u32) {
    let crew = Takers::taking_with(RULE, subject, partitions, wide(), limits()).await;
    crew.append(0..COUNT, KEYS).await;
    let worker = crew.taker("a").concurrency(4).run(async |delivery: Delivery<Work>, hand: Hand| {
        let doing = hand.begin(&delivery);
        tokio::task::yield_now().await;
        if doing.n % 11 == 3 && delivery.attempt() < 3 {
            return Err("the test's own error".into());
        }
        doing.done();
        Ok(())
    });
    let script = async {
        crew.handled(240).await;
        crew.leaves("everything is acknowledged", (0, 0)).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    crew.in_order(KEYS);
    crew.each_once("some failed", 0..COUNT);
    RULE.same("failures that were told", crew.retrying(), 2 * (0..COUNT).filter(|n| n % 11 == 3).count());
}

/// The control: with one handler nothing is at once, and the order is the stream's.
async fn one_handler<S: Streams<Backend: Cursors>>(subject: &S) {
    let crew = Takers::taking(RULE, subject, wide()).await;
    crew.append(0..COUNT, KEYS).await;
    let script = async {
        crew.handled(240).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").run(note), script).await;
    RULE.same("the control: one handler at a time", crew.journal.peak(), 1);
    RULE.same("the order of one handler", crew.journal.done(), (0..COUNT).collect::<Vec<_>>());
    RULE.same("a stop settles what was handled", crew.left().await, (0, 0));
}

async fn batches<S: Streams<Backend: Cursors>>(subject: &S) {
    for most in [1, 4] {
        let crew = Takers::taking(RULE, subject, wide()).await;
        crew.append(0..COUNT, KEYS).await;
        let worker =
            crew.taker("a").concurrency(2).run_batches(most, async |deliveries: Vec<Delivery<Work>>, hand: Hand| {
                let numbers: Vec<u64> =
                    deliveries.into_iter().map(|one| one.into_value().map(|work| work.n)).collect::<Result<_, _>>()?;
                hand.journal.write(Seen::Batch { numbers: numbers.clone(), over: false });
                tokio::task::yield_now().await;
                hand.journal.write(Seen::Batch { numbers, over: true });
                Ok(())
            });
        let script = async {
            crew.leaves("batches are acknowledged", (0, 0)).await;
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
        let (mut running, mut last) = (BTreeSet::new(), BTreeMap::new());
        let (mut all, mut largest) = (Vec::new(), 0);
        for seen in crew.journal.seen() {
            let Seen::Batch { numbers, over } = seen else { continue };
            let keys: BTreeSet<_> = numbers.iter().map(|n| n % KEYS).collect();
            if over {
                running.retain(|key| !keys.contains(key));
                continue;
            }
            RULE.same("one of each key in a batch", keys.len(), numbers.len());
            RULE.that(running.is_disjoint(&keys), "two batches at once hold one key");
            running.extend(keys);
            largest = largest.max(numbers.len());
            for n in numbers {
                let before = last.insert(n % KEYS, n);
                RULE.that(before < Some(n), &format!("{n} was handled after {before:?} of its key, in batches"));
                all.push(n);
            }
        }
        RULE.that(largest <= most, &format!("a batch has {largest} where {most} is the most"));
        RULE.that((largest > 1) == (most > 1), &format!("the largest batch of at most {most} has {largest}"));
        all.sort_unstable();
        RULE.same("each is in one batch", all, (0..COUNT).collect::<Vec<_>>());
    }
}

async fn without_a_key<S: Streams<Backend: Cursors>>(subject: &S) {
    const AT_ONCE: usize = 5;
    let crew = Takers::taking(RULE, subject, wide()).await;
    let stream = RULE.unwrap("binding", Errand::stream(&crew.broker));
    RULE.ok("ensuring", stream.ensure(StreamSettings::new())).await;
    let durable = RULE.unwrap("looking up", stream.durable(&owner("errands")));
    RULE.ok("ensuring", durable.ensure(wide())).await;
    for n in 0..20 {
        RULE.ok("appending", stream.append(&(), &Errand { n })).await;
    }
    let worker = durable.worker().concurrency(AT_ONCE).with(crew.hand("a")).until(&crew.stop).run(
        async |delivery: Delivery<Errand>, hand: Hand| {
            let n = delivery.into_value()?.n;
            hand.journal.write(Seen::Began { who: "a", n, attempt: 1 });
            hand.journal.peaked(AT_ONCE).await;
            hand.journal.write(Seen::Done { n });
            Ok(())
        },
    );
    let script = async {
        crew.handled(20).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    RULE.same("what has no key is independent", crew.journal.peak(), AT_ONCE);
    RULE.ok("deleting", stream.delete()).await;
}
