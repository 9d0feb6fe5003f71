use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::crew::{Crew, Hand, Seen, Work, note};
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::Rule;
use crate::stream::{Delivery, Start, StreamSettings};
use crate::stream_spec;

const RULE: Rule = Rule("worker-order");
const KEYS: u64 = 6;
const COUNT: u64 = 300;

/// Work without a key.
#[stream_spec(name = "conformance.chore", version = 1, key = (), requires(ack_groups), crate = crate)]
#[derive(Serialize, Deserialize)]
struct Chore {
    n: u64,
}

/// `worker-order`: deliveries of one key are handled one at a time and in order, those of different keys at once.
pub async fn worker_order<S: Subject<Backend: AckGroups>>(subject: S) {
    keys_at_once::<S>(&subject).await;
    one_handler::<S>(&subject).await;
    batches::<S>(&subject).await;
    without_a_key::<S>(&subject).await;
}

async fn keys_at_once<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    crew.append(0..COUNT, KEYS).await;
    let keys = usize::try_from(KEYS).expect("it is small");
    let worker = crew.worker("a").concurrency(2 * keys).run(move |delivery: Delivery<Work>, hand: Hand| async move {
        let doing = hand.begin(&delivery);
        // Comes to pass only where every key is under way at once.
        hand.journal.peaked(keys).await;
        tokio::task::yield_now().await;
        doing.done();
        Ok(())
    });
    let script = async {
        crew.handled(usize::try_from(COUNT).expect("it is small")).await;
        crew.stop.stop();
    };
    crew.stopped(worker, script).await;
    RULE.same("as many handlers run at once as there are keys", crew.journal.peak(), keys);
    let mut running = BTreeSet::new();
    let mut last = BTreeMap::new();
    for seen in crew.journal.seen() {
        match seen {
            Seen::Began { n, .. } => {
                RULE.that(running.insert(n % KEYS), &format!("two of one key at once, {n} the second"));
                let before = last.insert(n % KEYS, n);
                RULE.that(before < Some(n), &format!("{n} was handled after {before:?}"));
            }
            Seen::Done { n } => _ = running.remove(&(n % KEYS)),
            _ => {}
        }
    }
    crew.each_once("several handlers", 0..COUNT);
    crew.pending_is("everything is acknowledged", []).await;
}

/// The control: with one handler nothing is at once, and the order is the stream's.
async fn one_handler<S: Subject<Backend: AckGroups>>(subject: &S) {
    let crew = Crew::start(RULE, subject).await;
    crew.append(0..COUNT, KEYS).await;
    let script = async {
        crew.handled(usize::try_from(COUNT).expect("it is small")).await;
        crew.stop.stop();
    };
    crew.stopped(crew.worker("a").run(note), script).await;
    RULE.same("the control: one handler at a time", crew.journal.peak(), 1);
    RULE.same("the order of one handler", crew.journal.done(), (0..COUNT).collect::<Vec<_>>());
}

async fn batches<S: Subject<Backend: AckGroups>>(subject: &S) {
    for most in [1, 16] {
        let crew = Crew::start(RULE, subject).await;
        crew.append(0..COUNT, KEYS).await;
        let worker =
            crew.worker("a").concurrency(4).run_batches(most, async |deliveries: Vec<Delivery<Work>>, hand: Hand| {
                let numbers: Vec<u64> =
                    deliveries.into_iter().map(|one| one.into_value().map(|work| work.n)).collect::<Result<_, _>>()?;
                hand.journal.write(Seen::Batch { numbers: numbers.clone(), over: false });
                tokio::task::yield_now().await;
                hand.journal.write(Seen::Batch { numbers, over: true });
                Ok(())
            });
        let script = async {
            crew.until("everything is handled", |seen| batched(seen).len() as u64 >= COUNT).await;
            crew.stop.stop();
        };
        crew.stopped(worker, script).await;
        let seen = crew.journal.seen();
        let mut running = BTreeSet::new();
        let mut last = BTreeMap::new();
        let mut largest = 0;
        for seen in &seen {
            let Seen::Batch { numbers, over } = seen else { continue };
            let keys: BTreeSet<_> = numbers.iter().map(|n| n % KEYS).collect();
            if *over {
                running.retain(|key| !keys.contains(key));
                continue;
            }
            RULE.that(running.is_disjoint(&keys), "two batches at once hold one key");
            running.extend(keys);
            largest = largest.max(numbers.len());
            for n in numbers {
                let before = last.insert(n % KEYS, *n);
                RULE.that(before < Some(*n), &format!("{n} was handled after {before:?} of its key, in batches"));
            }
        }
        RULE.that(largest <= most, &format!("a batch has {largest} where {most} is the most"));
        RULE.that(
            (largest > 1) == (most > 1),
            &format!("what waits is one batch, but the largest of {most} has {largest}"),
        );
        RULE.same("each is in one batch", batched(&seen), (0..COUNT).collect::<Vec<_>>());
        crew.pending_is("batches are acknowledged", []).await;
    }
}

/// The numbers of all batches that are over, in order.
fn batched(seen: &[Seen]) -> Vec<u64> {
    let over = seen.iter().filter_map(|seen| match seen {
        Seen::Batch { numbers, over: true } => Some(numbers),
        _ => None,
    });
    let mut numbers: Vec<u64> = over.flatten().copied().collect();
    numbers.sort_unstable();
    numbers
}

async fn without_a_key<S: Subject<Backend: AckGroups>>(subject: &S) {
    const AT_ONCE: usize = 5;
    let crew = Crew::start(RULE, subject).await;
    let stream = RULE.unwrap("binding", Chore::stream(&crew.broker));
    RULE.ok("ensuring", stream.ensure(StreamSettings::new())).await;
    let group = RULE.unwrap("looking up", stream.ack_group("crew"));
    RULE.ok("ensuring", group.ensure(Start::Earliest)).await;
    for n in 0..20 {
        RULE.ok("appending", stream.append(&(), &Chore { n })).await;
    }
    let worker = group.worker("a").concurrency(AT_ONCE).with(crew.hand("a")).until(&crew.stop).run(
        async |delivery: Delivery<Chore>, hand: Hand| {
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
