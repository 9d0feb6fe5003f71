use std::collections::{BTreeMap, BTreeSet};

use super::crew::Sharers;
use crate::capability::CommitGroups;
use crate::conformance::Subject;
use crate::conformance::rule::Rule;
use crate::conformance::worker::crew::{Hand, Seen, Work, note};
use crate::stream::Delivery;

const RULE: Rule = Rule("worker-order");
const KEYS: u64 = 6;
const COUNT: u64 = 240;

/// `worker-order`: deliveries of one key are handled one at a time and in order, those of different keys at once, and all
/// of them are committed.
pub async fn commit_worker_order<S: Subject<Backend: CommitGroups>>(subject: S) {
    let keys = usize::try_from(KEYS).expect("it is small");
    for partitions in [1, 3] {
        let crew = Sharers::sharing(RULE, &subject, partitions).await;
        crew.append(0..COUNT, KEYS).await;
        let worker = crew.sharer("a").concurrency(2 * keys);
        let running = worker.run(move |delivery: Delivery<Work>, hand: Hand| async move {
            let doing = hand.begin(&delivery);
            // Comes to pass only where every key is under way at once.
            hand.journal.peaked(keys).await;
            tokio::task::yield_now().await;
            doing.done();
            Ok(())
        });
        let script = async {
            crew.handled(240).await;
            crew.leaves("everything is committed", 0).await;
            crew.stop.stop();
        };
        crew.stopped(running, script).await;
        RULE.same("as many handlers run at once as there are keys", crew.journal.peak(), keys);
        crew.in_order(KEYS);
        crew.each_once("several handlers", 0..COUNT);
    }
    // The control: with one handler nothing is at once, and the order is the stream's.
    let crew = Sharers::sharing(RULE, &subject, 1).await;
    crew.append(0..COUNT, KEYS).await;
    let script = async {
        crew.handled(240).await;
        crew.stop.stop();
    };
    crew.stopped(crew.sharer("a").run(note), script).await;
    RULE.same("the control: one handler at a time", crew.journal.peak(), 1);
    RULE.same("the order of one handler", crew.journal.done(), (0..COUNT).collect::<Vec<_>>());
    RULE.same("a stop commits what was handled", crew.left().await, 0);
    batches::<S>(&subject).await;
}

async fn batches<S: Subject<Backend: CommitGroups>>(subject: &S) {
    const MOST: usize = 16;
    let crew = Sharers::sharing(RULE, subject, 2).await;
    crew.append(0..COUNT, KEYS).await;
    let worker = crew.sharer("a").concurrency(4);
    let running = worker.run_batches(MOST, async |deliveries: Vec<Delivery<Work>>, hand: Hand| {
        let numbers: Vec<u64> =
            deliveries.into_iter().map(|one| one.into_value().map(|work| work.n)).collect::<Result<_, _>>()?;
        hand.journal.write(Seen::Batch { numbers: numbers.clone(), over: false });
        tokio::task::yield_now().await;
        hand.journal.write(Seen::Batch { numbers, over: true });
        Ok(())
    });
    let script = async {
        crew.leaves("batches are committed", 0).await;
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    let mut running = BTreeSet::new();
    let mut last = BTreeMap::new();
    let mut all = Vec::new();
    let mut largest = 0;
    for seen in crew.journal.seen() {
        let Seen::Batch { numbers, over } = seen else { continue };
        let keys: BTreeSet<_> = numbers.iter().map(|n| n % KEYS).collect();
        if over {
            running.retain(|key| !keys.contains(key));
            continue;
        }
        RULE.that(running.is_disjoint(&keys), "two batches at once hold one key");
        running.extend(keys);
        largest = largest.max(numbers.len());
        for n in numbers {
            let before = last.insert(n % KEYS, n);
            RULE.that(before < Some(n), &format!("{n} was handled after {before:?} of its key, in batches"));
            all.push(n);
        }
    }
    RULE.that((2..=MOST).contains(&largest), &format!("the largest batch has {largest}"));
    all.sort_unstable();
    RULE.same("each is in one batch", all, (0..COUNT).collect::<Vec<_>>());
}
