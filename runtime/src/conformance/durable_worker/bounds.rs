use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{Takers, WAIT, began, partitions, wide};
use crate::capability::Cursors;
use crate::conformance::Streams;
use crate::conformance::rule::{Rule, limits};
use crate::conformance::worker::crew::{Hand, Seen, Work, count, note};
use crate::error::ErrorKind;
use crate::stream::{Delivery, DurableSettings};

const COUNT: u64 = 120;
const BYTES: usize = 1_000;

/// How a worker takes ahead.
struct Ahead {
    settings: DurableSettings,
    records: usize,
    bytes: usize,
    concurrency: usize,
}

/// `worker-read-ahead`: no more deliveries wait for a worker's handlers than its bounds of records and of bytes and the
/// durable allow; a durable that hands out too few for its handlers is refused.
pub async fn durable_worker_read_ahead<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-read-ahead");
    for partitions in partitions::<S>() {
        // The control: wide bounds, under which all is taken at once.
        let wide_bounds = Ahead { settings: wide(), records: 500, bytes: 1 << 20, concurrency: 1 };
        let ahead = most_ahead::<S>(RULE, &subject, partitions, wide_bounds).await;
        RULE.that(ahead > 100, &format!("the control: with wide bounds only {ahead} were taken ahead"));
        for concurrency in [1, 4] {
            let bounds = [
                (wide(), 1, 1 << 20, 1),
                (wide(), 10, 1 << 20, 10),
                (wide(), 500, 8 * BYTES, 8),
                (wide().in_flight(5), 500, 1 << 20, 5),
            ];
            for (settings, records, bytes, most) in bounds {
                let text = format!("{records} records, {bytes} bytes, {} in flight", settings.in_flight);
                let bounds = Ahead { settings, records, bytes, concurrency };
                let ahead = most_ahead::<S>(RULE, &subject, partitions, bounds).await;
                RULE.that(
                    ahead <= most + concurrency as u64,
                    &format!("with {text} and {concurrency} handlers {ahead} were taken ahead"),
                );
            }
        }
    }

    let crew = Takers::taking(RULE, &subject, DurableSettings::new().in_flight(2)).await;
    crew.append(0..4, 4).await;
    let refused = RULE.fails("more handlers than may be in flight", crew.taker("a").concurrency(3).run(note)).await;
    RULE.same("more handlers than may be in flight", refused.kind(), ErrorKind::Conflict);
    RULE.that(refused.to_string().contains("`in_flight`"), &format!("the setting is named, not `{refused}`"));
    RULE.same("nothing was done", (crew.journal.seen(), crew.left().await), (vec![], (4, 0)));
    let script = async {
        crew.handled(4).await;
        crew.stop.stop();
    };
    crew.stopped(crew.taker("a").concurrency(2).run(note), script).await;
    crew.each_once("the control: as many as may be in flight", 0..4);
}

/// Looks in each handler's call how much is handed out and wasn't begun, and returns the most.
async fn most_ahead<S: Streams<Backend: Cursors>>(rule: Rule, subject: &S, partitions: u32, ahead: Ahead) -> u64 {
    let crew = Takers::taking_with(rule, subject, partitions, ahead.settings, limits()).await;
    crew.append_filled(0..COUNT, 40, BYTES).await;
    let (most, begun) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let (seen, durable) = (most.clone(), crew.group.clone());
    let worker = crew.taker("a").read_ahead(ahead.records).read_ahead_bytes(ahead.bytes);
    let running = worker.concurrency(ahead.concurrency).run(move |delivery: Delivery<Work>, hand: Hand| {
        let (seen, begun, durable) = (seen.clone(), begun.clone(), durable.clone());
        async move {
            let doing = hand.begin(&delivery);
            begun.fetch_add(1, Ordering::Relaxed);
            let handed_out = COUNT - durable.info().await?.waiting;
            // What began while it was asked was not taken ahead.
            seen.fetch_max(handed_out.saturating_sub(begun.load(Ordering::Relaxed)), Ordering::Relaxed);
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

/// `worker-bounded`: where all that may be in flight is kept behind what failed for good, it is told, once.
pub async fn durable_worker_held_up<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("worker-bounded");
    for in_flight in [4, 16] {
        let crew = Takers::taking(RULE, &subject, wide().in_flight(in_flight).ack_wait(WAIT)).await;
        // 5, 10 and 15 are behind it, of its key.
        crew.append_riddle(&subject, 0, 5).await;
        crew.append([5, 10, 15, 1, 2, 3, 4], 5).await;
        let held_up = |seen: &[Seen]| count(seen, |seen| matches!(seen, Seen::HeldUp(_)));
        let script = async {
            if in_flight == 4 {
                crew.until("it is told", |seen| held_up(seen) > 0).await;
                RULE.same("nothing else can come", crew.left().await, (4, 4));
                // Long enough for it to be told again.
                tokio::time::sleep(WAIT * 2).await;
                RULE.same("nothing else comes", crew.left().await, (4, 4));
            } else {
                crew.handled(4).await;
                crew.leaves("the control: the others pass", (0, 4)).await;
                tokio::time::sleep(WAIT * 2).await;
            }
            crew.stop.stop();
        };
        crew.stopped(crew.taker("a").run(note), script).await;
        let seen = crew.journal.seen();
        let told: Vec<u64> = seen
            .iter()
            .filter_map(|seen| if let Seen::HeldUp(position) = seen { Some(crew.number(*position)) } else { None })
            .collect();
        RULE.same("what holds it up", told, (0..1).filter(|_| in_flight == 4).collect::<Vec<u64>>());
        RULE.same("what is handled", began(&seen), if in_flight == 4 { 0 } else { 4 });
    }
}
