//! The universal sequences of Watermill's suite, as far as they have a meaning here, and some that public bug reports
//! ask for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::{
    AckGroup, Append, Broker, Consumer, Delivery, ErrorKind, Outcome, Start, Stream, StreamSettings, stream_spec, topic,
};
use tidings_tests::harness::within;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::everywhere;
use super::place::{InProcess, OnServer, Place};
use tidings_tests::harness::Kind;

#[topic(name = "sequences.entry", version = 1, key = u64)]
#[stream_spec(name = "sequences.entry", version = 1, key = u64, requires(ack_groups, dedup))]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Entry {
    n: u64,
}

#[stream_spec(name = "sequences.other", version = 1, key = u64)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Other {
    n: u64,
}

everywhere! {
    publish_subscribe
    concurrent_subscribe
    concurrent_subscribe_multiple_topics
    resend_on_error
    no_ack
    continue_after_subscribe_close
    concurrent_close
    continue_after_errors
    publish_subscribe_in_order
    publisher_close
    topic
    message_ctx
    subscribe_ctx
    new_subscriber_receives_old_messages
    reconnect
    consumer_groups
    cancelled_appends_and_acks_are_unknown_and_never_half_done
    two_tails_in_one_select_are_both_complete
    a_repeated_append_is_no_duplicate_of_one_that_failed
}

const SOON: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_hours(1);

type Entries<P> = Stream<Entry, <P as Place>::Backend>;

async fn entries<P: Place>(place: &P) -> Entries<P> {
    let stream = Entry::stream(&place.broker()).unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
    stream
}

async fn group<P: Place>(place: &P, name: &str) -> AckGroup<Entry, P::Backend> {
    let group = Entry::stream(&place.broker()).unwrap().ack_group(name).unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    group
}

async fn fill<P: Place>(stream: &Entries<P>, numbers: impl IntoIterator<Item = u64>) {
    let entries: Vec<_> = numbers.into_iter().map(|n| Entry { n }).collect();
    for outcome in stream.append_all(entries.iter().map(|entry| (&entry.n, entry))).await.unwrap() {
        outcome.unwrap();
    }
}

fn number(delivery: &Delivery<Entry>) -> u64 {
    delivery.value().unwrap().n
}

/// Takes and settles until so many are settled.
async fn consume<P: Place>(consumer: &Consumer<Entry, P::Backend>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    within(format!("{} settles {count}", consumer.name()), async {
        while numbers.len() < count {
            let read = consumer.read(20.min(count - numbers.len()), SOON).await.unwrap();
            for delivery in read {
                assert_eq!(consumer.ack([delivery.position()]).await.unwrap(), 1);
                numbers.push(number(&delivery));
            }
        }
    })
    .await;
    numbers
}

/// 100 entries, payload and headers intact; following ends when the broker is closed.
async fn publish_subscribe<P: Place>(place: P) {
    let stream = entries(&place).await;
    let reader = Entry::stream(&place.broker()).unwrap();
    let mut tail = reader.tail(Start::Earliest);
    let events = Entry::topic(&place.broker()).unwrap();
    let mut subscription = events.subscribe(&1).await.unwrap();
    for n in 0..100 {
        let entry = Entry { n };
        let append = Append::new(&n, &entry).id(format!("id-{n}")).header("n", n.to_string());
        stream.append_with(append).await.unwrap();
        events.publish(&1, &entry).await.unwrap();
    }
    for n in 0..100 {
        let delivery = within("an entry", tail.receive()).await.unwrap();
        assert_eq!((number(&delivery), delivery.key().unwrap()), (n, n));
        assert_eq!(delivery.headers().get("n"), Some(&*n.to_string()));
        assert_eq!(delivery.id().unwrap().to_string(), format!("id-{n}"));
        assert_eq!(within("an event", subscription.receive()).await.unwrap().n, n);
    }
    let close = async {
        sleep(Duration::from_millis(20)).await;
        reader.broker().close(LONG).await
    };
    let (ended, closed) = within("the tail ends", async { tokio::join!(tail.receive(), close) }).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    closed.unwrap();
}

/// Fifty consumers share 1,000 entries, each of which arrives once; fifty subscriptions get 100 events each.
async fn concurrent_subscribe<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    fill::<P>(&stream, 0..1_000).await;
    let mut tasks = JoinSet::new();
    for index in 0..50 {
        let consumer = group.consumer(&format!("c{index}")).unwrap();
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            loop {
                let read = consumer.read(20, SOON).await.unwrap();
                if read.is_empty() {
                    return numbers;
                }
                let count = consumer.ack(read.iter().map(Delivery::position)).await.unwrap();
                assert_eq!(count, read.len() as u64);
                numbers.extend(read.iter().map(number));
            }
        });
    }
    let mut numbers: Vec<u64> = within("all consumers", tasks.join_all()).await.into_iter().flatten().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
    assert_eq!(group.depth().await.unwrap().pending, 0);

    let events = Entry::topic(&place.broker()).unwrap();
    let mut subscriptions = Vec::new();
    for _ in 0..50 {
        subscriptions.push(events.subscribe(&1).await.unwrap());
    }
    for n in 0..100 {
        events.publish(&1, &Entry { n }).await.unwrap();
    }
    for subscription in &mut subscriptions {
        for n in 0..100 {
            assert_eq!(within("an event", subscription.receive()).await.unwrap().n, n);
        }
    }
}

/// Twenty streams of 100 entries, each made, filled and read in its own task.
async fn concurrent_subscribe_multiple_topics<P: Place>(place: P) {
    let mut tasks = JoinSet::new();
    for index in 0..20 {
        let broker = place.broker_in(&format!("e{index}"));
        tasks.spawn(async move {
            let stream = Entry::stream(&broker).unwrap();
            stream.ensure(StreamSettings::new()).await.unwrap();
            let mut tail = stream.tail(Start::Earliest);
            let appends = async {
                for n in 0..100 {
                    stream.append(&n, &Entry { n: index * 1_000 + n }).await.unwrap();
                }
            };
            let reads = async {
                for n in 0..100 {
                    assert_eq!(number(&tail.receive().await.unwrap()), index * 1_000 + n);
                }
            };
            tokio::join!(appends, reads);
        });
    }
    within("all streams", tasks.join_all()).await;
}

/// What is given back twice comes again, each entry every time.
async fn resend_on_error<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    let consumer = group.consumer("one").unwrap();
    fill::<P>(&stream, 0..100).await;
    let mut deliveries = consumer.read(100, LONG).await.unwrap();
    for _ in 0..2 {
        assert_eq!(deliveries.iter().map(number).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        consumer.release(deliveries.iter().map(Delivery::position)).await.unwrap();
        let again = within("all come again", async {
            let mut again = Vec::new();
            while again.len() < 100 {
                again.extend(consumer.claim(HOUR, 100).await.unwrap().deliveries);
            }
            again
        });
        deliveries = again.await;
        deliveries.sort_by_key(number);
    }
    assert_eq!(consumer.ack(deliveries.iter().map(Delivery::position)).await.unwrap(), 100);
    assert!(consumer.claim(Duration::ZERO, 100).await.unwrap().deliveries.is_empty());
}

/// What isn't acknowledged isn't handed out again to anyone, until someone claims it.
async fn no_ack<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    let (one, two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    fill::<P>(&stream, 0..2).await;
    let first = one.read(1, LONG).await.unwrap();
    assert_eq!(number(&first[0]), 0);
    assert_eq!(two.read(10, LONG).await.unwrap().iter().map(number).collect::<Vec<_>>(), [1]);
    for consumer in [&one, &two] {
        assert!(consumer.read(10, Duration::from_millis(100)).await.unwrap().is_empty());
    }
    assert_eq!(two.claim(Duration::ZERO, 1).await.unwrap().deliveries.len(), 1);
}

/// Five batches, the consumer made anew between them, by another broker under the same name: nothing is lost.
async fn continue_after_subscribe_close<P: Place>(place: P) {
    let stream = entries(&place).await;
    let mut numbers = Vec::new();
    for batch in 0..5 {
        fill::<P>(&stream, batch * 200..(batch + 1) * 200).await;
        let group = group(&place, "g").await;
        let consumer = group.consumer("one").unwrap();
        numbers.extend(consume::<P>(&consumer, 150).await);
        group.stream().broker().close(LONG).await.unwrap();
    }
    let group = group(&place, "g").await;
    numbers.extend(consume::<P>(&group.consumer("one").unwrap(), 250).await);
    assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
}

/// Ten that wait are closed at once; what comes then goes to the one that is left.
async fn concurrent_close<P: Place>(place: P) {
    let stream = entries(&place).await;
    let left = group(&place, "g").await.consumer("left").unwrap();
    let mut tasks = JoinSet::new();
    for index in 0..10 {
        let group = group(&place, "g").await;
        let consumer = group.consumer(&format!("c{index}")).unwrap();
        tasks.spawn(async move {
            let broker = group.stream().broker().clone();
            let close = async {
                while broker.stats().operations == 0 {
                    tokio::task::yield_now().await;
                }
                broker.close(LONG).await.unwrap();
            };
            let (read, ()) = tokio::join!(consumer.read(10, LONG), close);
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Closed);
        });
    }
    within("all closed", tasks.join_all()).await;
    fill::<P>(&stream, 0..50).await;
    assert_eq!(consume::<P>(&left, 50).await, (0..50).collect::<Vec<_>>());
}

/// Three consumers fail on everything that they get and give it back; then all of it is consumed.
async fn continue_after_errors<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    fill::<P>(&stream, 0..50).await;
    for name in ["a", "b", "c"] {
        let failing = group.consumer(name).unwrap();
        let mut failed = 0;
        within("it fails often", async {
            while failed < 100 {
                let mut deliveries = failing.read(50, Duration::ZERO).await.unwrap();
                deliveries.extend(failing.claim(HOUR, 50).await.unwrap().deliveries);
                failed += deliveries.len();
                failing.release(deliveries.iter().map(Delivery::position)).await.unwrap();
            }
        })
        .await;
    }
    let consumer = group.consumer("good").unwrap();
    let mut numbers = BTreeSet::new();
    within("all are consumed", async {
        while numbers.len() < 50 {
            for delivery in consumer.claim(HOUR, 50).await.unwrap().deliveries {
                assert_eq!(delivery.attempt(), 1, "failures that were given back don't count");
                assert_eq!(consumer.ack([delivery.position()]).await.unwrap(), 1);
                assert!(numbers.insert(number(&delivery)), "each once");
            }
        }
    })
    .await;
}

/// 1,000 entries of 16 keys over four partitions: the order of each key is kept, in a tail and in a group.
async fn publish_subscribe_in_order<P: Place>(place: P) {
    const KEYS: u64 = 16;
    let stream = Entry::stream(&place.broker()).unwrap();
    stream.ensure(StreamSettings::new().partitions(4)).await.unwrap();
    let consumer = group(&place, "g").await.consumer("one").unwrap();
    let mut tasks = JoinSet::new();
    for key in 0..KEYS {
        let stream = stream.clone();
        tasks.spawn(async move {
            for n in 0..63 {
                stream.append(&key, &Entry { n }).await.unwrap();
            }
        });
    }
    let (mut tail, mut following) = (stream.tail(Start::Earliest), consumer.tail(false));
    let (mut tailed, mut followed) = ([0; 16], [0; 16]);
    within("all in order", async {
        for _ in 0..KEYS * 63 {
            for (delivery, next) in [(tail.receive().await, &mut tailed), (following.receive().await, &mut followed)] {
                let delivery = delivery.unwrap();
                let next = &mut next[usize::try_from(delivery.key().unwrap()).unwrap()];
                assert_eq!(number(&delivery), *next);
                *next += 1;
            }
        }
    })
    .await;
    assert!(tailed.iter().chain(&followed).all(|count| *count == 63));
}

/// Twenty publish at once until their broker is closed: what was told as recorded is there, once, and nothing else but
/// what may be.
async fn publisher_close<P: Place>(place: P) {
    let reader = entries(&place).await;
    let broker = place.broker();
    let stream = Entry::stream(&broker).unwrap();
    let mut tasks = JoinSet::new();
    for publisher in 0..20 {
        let stream = stream.clone();
        tasks.spawn(async move {
            let (mut recorded, mut unknown) = (Vec::new(), Vec::new());
            for n in publisher * 10_000.. {
                match stream.append(&publisher, &Entry { n }).await {
                    Ok(_) => recorded.push(n),
                    Err(error) if error.outcome() == Outcome::Unknown => unknown.push(n),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                        break;
                    }
                }
            }
            (recorded, unknown)
        });
    }
    sleep(Duration::from_millis(200)).await;
    broker.close(LONG).await.unwrap();
    let (mut recorded, mut possible) = (BTreeSet::new(), BTreeSet::new());
    for (known, unknown) in within("all publishers", tasks.join_all()).await {
        recorded.extend(known);
        possible.extend(unknown);
    }
    let mut tail = reader.tail(Start::Earliest);
    let mut there = BTreeSet::new();
    fill::<P>(&reader, [u64::MAX]).await;
    loop {
        let n = number(&within("an entry", tail.receive()).await.unwrap());
        if n == u64::MAX {
            break;
        }
        assert!(there.insert(n), "{n} is there twice");
    }
    assert!(there.is_superset(&recorded), "what was recorded is there");
    assert!(there.difference(&recorded).all(|n| possible.contains(n)), "what was refused isn't");
}

/// Two streams don't mix.
async fn topic<P: Place>(place: P) {
    let stream = entries(&place).await;
    let other = Other::stream(stream.broker()).unwrap();
    other.ensure(StreamSettings::new()).await.unwrap();
    for n in 0..10 {
        stream.append(&1, &Entry { n }).await.unwrap();
        other.append(&1, &Other { n: 100 + n }).await.unwrap();
    }
    let read = stream.read(Start::Earliest, 100, Duration::ZERO).await.unwrap();
    assert_eq!(read.iter().map(number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let read = other.read(Start::Earliest, 100, Duration::ZERO).await.unwrap();
    let numbers: Vec<_> = read.iter().map(|delivery| delivery.value().unwrap().n).collect();
    assert_eq!(numbers, (100..110).collect::<Vec<_>>());
}

/// There is no context to be cancelled: a delivery is the caller's own, also when it is settled and the broker is gone.
async fn message_ctx<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    let consumer = group.consumer("one").unwrap();
    fill::<P>(&stream, [7]).await;
    let delivery = consumer.read(1, LONG).await.unwrap().remove(0);
    assert_eq!(consumer.ack([delivery.position()]).await.unwrap(), 1);
    group.stream().broker().close(LONG).await.unwrap();
    drop((consumer, group));
    assert_eq!((number(&delivery), delivery.key().unwrap()), (7, 7));
    assert_eq!(&delivery.data()[..], b"{\"n\":7}");
}

/// Followers that are dropped while they wait lose nothing: who follows again gets all 20.
async fn subscribe_ctx<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    let consumer = group.consumer("one").unwrap();
    let mut followed = consumer.tail(true);
    assert!(timeout(Duration::from_millis(50), followed.receive()).await.is_err());
    drop(followed);
    fill::<P>(&stream, 0..10).await;
    let mut followed = consumer.tail(true);
    // It reads all of them ahead and is dropped with them.
    assert_eq!(number(&within("the first", followed.receive()).await.unwrap()), 0);
    drop(followed);
    fill::<P>(&stream, 10..20).await;
    let mut followed = consumer.tail(true);
    for n in 0..20 {
        assert_eq!(number(&within("the rest", followed.receive()).await.unwrap()), n);
    }
}

/// Who comes late sees what was there before.
async fn new_subscriber_receives_old_messages<P: Place>(place: P) {
    let stream = entries(&place).await;
    fill::<P>(&stream, 0..10).await;
    let mut tail = Entry::stream(&place.broker()).unwrap().tail(Start::Earliest);
    let late = group(&place, "late").await.consumer("one").unwrap();
    assert_eq!(consume::<P>(&late, 10).await, (0..10).collect::<Vec<_>>());
    for n in 0..10 {
        assert_eq!(number(&within("an old entry", tail.receive()).await.unwrap()), n);
    }
}

/// Twenty publishers repeat each append, by its id, until it is recorded, while the system is restarted twice: a group
/// gets everything, and nothing is stored twice.
async fn reconnect<P: Place>(mut place: P) {
    const PUBLISHERS: u64 = 20;
    const EACH: u64 = 30;
    let settings = StreamSettings::new().dedup_window(HOUR);
    let stream = Entry::stream(&place.broker()).unwrap();
    stream.ensure(settings).await.unwrap();
    let consumer = group(&place, "g").await.consumer("one").unwrap();
    let recorded = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let (stream, recorded) = (stream.clone(), recorded.clone());
        tasks.spawn(async move {
            for n in publisher * EACH..(publisher + 1) * EACH {
                let entry = Entry { n };
                while stream.append_with(Append::new(&n, &entry).id(n.to_string())).await.is_err() {
                    sleep(Duration::from_millis(5)).await;
                }
                recorded.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                sleep(Duration::from_millis(1)).await;
            }
        });
    }
    let consuming = tokio::spawn(async move {
        let mut seen = BTreeSet::new();
        while (seen.len() as u64) < PUBLISHERS * EACH {
            // What a broken read had been handed is in the history.
            let mut deliveries = match consumer.history(None, 1_000).await {
                Ok(own) => own.deliveries,
                Err(_) => Vec::new(),
            };
            if deliveries.is_empty() {
                deliveries = consumer.read(1_000, SOON).await.unwrap_or_default();
            }
            for delivery in &deliveries {
                seen.insert(number(delivery));
            }
            if consumer.ack(deliveries.iter().map(Delivery::position)).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
        seen
    });
    for share in [3, 2] {
        within("some are recorded", async {
            while recorded.load(std::sync::atomic::Ordering::SeqCst) < PUBLISHERS * EACH / share {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        place.restart().await;
    }
    within("all are recorded", tasks.join_all()).await;
    let seen = within("all are consumed", consuming).await.unwrap();
    assert_eq!(seen, (0..PUBLISHERS * EACH).collect());
    let fresh = Entry::stream(&place.broker()).unwrap();
    let read = fresh.read(Start::Earliest, 4_000, Duration::ZERO).await.unwrap();
    assert_eq!(read.len() as u64, PUBLISHERS * EACH, "nothing is stored twice");
}

/// Two groups receive all 50 each.
async fn consumer_groups<P: Place>(place: P) {
    let stream = entries(&place).await;
    let (g, h) = (group(&place, "g").await, group(&place, "h").await);
    fill::<P>(&stream, 0..50).await;
    for group in [g, h] {
        assert_eq!(consume::<P>(&group.consumer("one").unwrap(), 50).await, (0..50).collect::<Vec<_>>());
    }
}

/// I09. Appends and acknowledgements given up after ever longer: what was told is so, nothing is half done.
async fn cancelled_appends_and_acks_are_unknown_and_never_half_done<P: Place>(place: P) {
    let stream = entries(&place).await;
    let group = group(&place, "g").await;
    let consumer = group.consumer("one").unwrap();
    let mut recorded = BTreeSet::new();
    for n in 0..300 {
        let patience = Duration::from_micros(n * 7 % 1_000);
        if let Ok(appended) = timeout(patience, stream.append(&1, &Entry { n })).await {
            appended.unwrap();
            recorded.insert(n);
        }
    }
    fill::<P>(&stream, [1_000]).await;
    let read = consumer.read(1_000, LONG).await.unwrap();
    let there: Vec<_> = read.iter().map(number).collect();
    assert!(there.is_sorted() && there.windows(2).all(|pair| pair[0] != pair[1]), "in order, each once: {there:?}");
    assert!(recorded.iter().all(|n| there.contains(n)), "what was told is there");
    let mut settled = BTreeSet::new();
    for (index, delivery) in read.iter().enumerate() {
        let patience = Duration::from_micros(index as u64 * 7 % 1_000);
        if let Ok(count) = timeout(patience, consumer.ack([delivery.position()])).await {
            assert_eq!(count.unwrap(), 1);
            settled.insert(number(delivery));
        }
    }
    let left: Vec<_> = within("what is left", async {
        // An acknowledgement that was given up may still be on its way.
        consumer.history(None, 1_000).await.unwrap().deliveries
    })
    .await;
    assert!(left.iter().all(|delivery| !settled.contains(&number(delivery))), "what was settled stays so");
    group.ack(left.iter().map(Delivery::position)).await.unwrap();
    assert_eq!(group.depth().await.unwrap().pending, 0);
}

/// I10. Two tails in one `select!`: both are complete, whichever wins.
async fn two_tails_in_one_select_are_both_complete<P: Place>(place: P) {
    let stream = entries(&place).await;
    let other = Other::stream(stream.broker()).unwrap();
    other.ensure(StreamSettings::new()).await.unwrap();
    let (mut one, mut two) = (stream.tail(Start::Earliest), other.tail(Start::Earliest));
    let appends = async {
        for n in 0..200 {
            stream.append(&1, &Entry { n }).await.unwrap();
            other.append(&1, &Other { n }).await.unwrap();
        }
    };
    let reads = async {
        let (mut first, mut second) = (0, 0);
        while first + second < 400 {
            tokio::select! {
                delivery = one.receive(), if first < 200 => {
                    assert_eq!(number(&delivery.unwrap()), first);
                    first += 1;
                }
                delivery = two.receive(), if second < 200 => {
                    assert_eq!(delivery.unwrap().value().unwrap().n, second);
                    second += 1;
                }
            }
        }
    };
    within("both are complete", async { tokio::join!(appends, reads) }).await;
}

/// An append that failed, repeated with its id, is stored once and told where; it is no duplicate of what wasn't stored.
async fn a_repeated_append_is_no_duplicate_of_one_that_failed<P: Place>(mut place: P) {
    let broker: Broker<P::Backend> = place.broker();
    let stream = Entry::stream(&broker).unwrap();
    let entry = Entry { n: 1 };
    let once = || Append::new(&1, &entry).id("order-7");
    let failed = stream.append_with(once()).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Absent, Outcome::NotApplied));
    stream.ensure(StreamSettings::new().dedup_window(HOUR)).await.unwrap();
    let first = stream.append_with(once()).await.unwrap();
    assert!(!first.duplicate);
    place.restart().await;
    let second = within("it can be repeated", async {
        loop {
            match stream.append_with(once()).await {
                Ok(receipt) => return receipt,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    assert_eq!((second.duplicate, second.position), (true, first.position));
    assert_eq!(stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap().len(), 1);
}
