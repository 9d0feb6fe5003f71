//! What a durable doesn't hand out, or not in the order in which it stands.

use tidings::{Delivery, Position};

use super::*;

fn removed(error: &Error) -> Option<u128> {
    assert_eq!(error.kind(), ErrorKind::Trimmed { certain: true }, "{error}");
    error.first_left().map(Position::offset)
}

async fn what_is_removed_is_told(kind: NatsKind) {
    let server = harness::Nats::start(kind, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new().in_flight(1)).await;
    append(&jobs, 0..10).await;
    let stream = async_nats::jetstream::new(super::super::other(&server).await).get_stream(STREAM).await.unwrap();
    let (mut one, mut two) = (durable.cursor().await.unwrap(), durable.cursor().await.unwrap());
    one.next().await.unwrap().ack().await.unwrap();
    two.next().await.unwrap().ack().await.unwrap();
    // From the middle: it may be missing.
    stream.delete_message(3).await.unwrap();
    let next = one.next().await.unwrap();
    assert_eq!(next.position().offset(), 4);
    next.ack().await.unwrap();
    // From the beginning, before which the other cursor had two.
    stream.purge().sequence(8).await.unwrap();
    assert_eq!(removed(&two.next().await.map(drop).unwrap_err()), Some(8));
    let next = two.next().await.unwrap();
    assert_eq!((next.position().offset(), next.attempt()), (8, 1));
    next.ack().await.unwrap();
    let next = two.next().await.unwrap();
    assert_eq!(next.position().offset(), 9);
    next.ack().await.unwrap();
    // The other cursor, too, and each once.
    assert_eq!(removed(&one.next().await.map(drop).unwrap_err()), Some(10));
    let next = one.next().await.unwrap();
    assert_eq!(next.position().offset(), 10);
    next.ack().await.unwrap();

    // And a worker.
    append(&jobs, 10..20).await;
    jobs.update(StreamSettings::new().max_len(5)).await.unwrap();
    let (journal, stop) = (Journal::default(), Stop::new());
    durable.update(DurableSettings::new().in_flight(4)).await.unwrap();
    let running = journal.work(&durable, Duration::ZERO, &stop);
    settled(&durable).await;
    stop.stop();
    within("the worker ends", running).await.unwrap().unwrap();
    assert_eq!(journal.handled.lock().unwrap().keys().copied().collect::<Vec<_>>(), [15, 16, 17, 18, 19]);
    assert!(journal.has("from after `0:10` to before `0:16`"), "{:?}", journal.told.lock().unwrap());
}

#[tokio::test]
async fn what_is_removed_before_it_is_handed_out_is_told_2_10() {
    what_is_removed_is_told(NatsKind::Nats210).await;
}

#[tokio::test]
async fn what_is_removed_before_it_is_handed_out_is_told_2_15() {
    what_is_removed_is_told(NatsKind::Nats215).await;
}

/// A server answers several requests in turn, each at a place of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keys_order_holds_over_several_requests() {
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new().in_flight(4_000)).await;
    let (seen, stop) = (Arc::<Mutex<BTreeMap<u64, Vec<u64>>>>::default(), Stop::new());
    let worker = durable.worker().concurrency(4).with(seen.clone()).until(&stop);
    let running =
        tokio::spawn(worker.run(|job: Delivery<Job>, seen: Arc<Mutex<BTreeMap<u64, Vec<u64>>>>| async move {
            let n = job.value()?.n;
            seen.lock().unwrap().entry(n % 7).or_default().push(n);
            Ok(())
        }));
    let handled = || seen.lock().unwrap().values().map(Vec::len).sum::<usize>() as u64;
    let mut n = 0;
    for round in 0..15 {
        // So many that some are still asked for when room is made for the next.
        for size in [130 + round, 200] {
            let batch: Vec<_> = (n..n + size).map(|n| (n % 7, Job { n })).collect();
            for appended in jobs.append_all(batch.iter().map(|(key, job)| (key, job))).await.unwrap() {
                appended.unwrap();
            }
            n += size;
            within("they are handled", async {
                while handled() < n {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
    }
    stop.stop();
    within("the worker ends", running).await.unwrap().unwrap();
    for (key, seen) in &*seen.lock().unwrap() {
        assert!(seen.is_sorted(), "key {key}: {seen:?}");
    }
}
