use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::crew::{Crew, Hand, Work};
use crate::broker::lock;
use crate::capability::AckGroups;
use crate::conformance::Subject;
use crate::conformance::rule::{Rule, limits};
use crate::stream::{AckGroup, Delivery, Position, StreamSettings};

const RULE: Rule = Rule("worker-read-ahead");
const COUNT: u64 = 120;
const BYTES: usize = 1_000;

/// `worker-read-ahead`: no more entries wait for a worker's handlers than its bounds of records and of bytes allow.
pub async fn worker_read_ahead<S: Subject<Backend: AckGroups>>(subject: S) {
    for partitions in [1, 3] {
        // The control: wide bounds, under which all is read at once.
        let wide = most_pending::<S>(&subject, partitions, 500, 1 << 20, 1).await;
        RULE.that(wide > 100, &format!("the control: with wide bounds only {wide} were pending"));
        for concurrency in [1, 4] {
            for (records, bytes, most) in [(1, 1 << 20, 1), (10, 1 << 20, 10), (500, 8 * BYTES, 8)] {
                let pending = most_pending::<S>(&subject, partitions, records, bytes, concurrency).await;
                let most = most + concurrency as u64;
                RULE.that(
                    pending <= most,
                    &format!("with {records} records, {bytes} bytes and {concurrency} handlers {pending} were pending"),
                );
            }
        }
    }
}

/// Looks in each handler's call how much is pending, and returns the most.
async fn most_pending<S: Subject<Backend: AckGroups>>(
    subject: &S,
    partitions: u32,
    records: usize,
    bytes: usize,
    concurrency: usize,
) -> u64 {
    let crew = Crew::with(RULE, subject, StreamSettings::new().partitions(partitions), limits()).await;
    crew.append_filled(0..COUNT, 40, BYTES).await;
    let most = Arc::new(AtomicU64::new(0));
    let (group, seen): (AckGroup<Work, S::Backend>, _) = (crew.group.clone(), most.clone());
    let handled: Arc<Mutex<HashSet<Position>>> = Arc::default();
    let worker = crew.worker("a").read_ahead(records).read_ahead_bytes(bytes).concurrency(concurrency);
    let running = worker.run(move |delivery: Delivery<Work>, hand: Hand| {
        let (group, seen, handled) = (group.clone(), seen.clone(), handled.clone());
        async move {
            let doing = hand.begin(&delivery);
            let pending = group.pending(None, 1_000).await?;
            {
                let mut handled = lock(&handled);
                // What is handled and on its way to be acknowledged was not read ahead.
                let ahead = pending.iter().filter(|entry| !handled.contains(&entry.position)).count();
                seen.fetch_max(ahead as u64, Ordering::Relaxed);
                handled.insert(delivery.position());
            }
            doing.done();
            Ok(())
        }
    });
    let script = async {
        crew.handled(usize::try_from(COUNT).expect("it is small")).await;
        crew.stop.stop();
    };
    crew.stopped(running, script).await;
    crew.each_once("under its bounds", 0..COUNT);
    most.load(Ordering::Relaxed)
}
