//! Servers that are killed, paused and cut off under streams.

use futures_util::StreamExt as _;
use tidings_tests::harness::{Cut, Direction, NatsCluster, NatsTls, Proxy};

use super::*;

/// What became of each append.
type Fates = BTreeMap<u64, Result<(), Outcome>>;

fn impatient() -> Limits {
    Limits::default().timeout(Duration::from_secs(1))
}

/// Appends numbers one after the other until it is stopped.
async fn append_until(stream: Rows, stop: Arc<AtomicBool>) -> Fates {
    let mut fates = Fates::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let appended = within("appending", stream.append(&(n % 7), &row(n))).await;
        let fate = appended.map(|_| ()).map_err(|failed| {
            assert!(failed.is_transient(), "{failed}");
            failed.outcome()
        });
        if fate.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fates.insert(n, fate);
    }
    fates
}

/// Follows the stream over every interruption, up to a number.
async fn follow(stream: Rows, last: u64) -> Vec<u64> {
    let mut tail = stream.tail(Start::Earliest);
    let mut seen = Vec::new();
    loop {
        match within("the tail goes on", tail.receive()).await {
            Ok(next) => seen.push(next.value().unwrap().n),
            Err(failed) => {
                assert!(failed.is_transient(), "{failed}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        if seen.last() == Some(&last) {
            return seen;
        }
    }
}

/// What was acknowledged is there once, what wasn't applied isn't, and what is unknown may be, once.
fn hold(fates: &Fates, there: &[u64]) {
    let mut counts = BTreeMap::new();
    for n in there {
        *counts.entry(*n).or_insert(0) += 1;
    }
    for (n, fate) in fates {
        let count = counts.get(n).copied().unwrap_or(0);
        match fate {
            Ok(()) => assert_eq!(count, 1, "{n} was acknowledged"),
            Err(Outcome::NotApplied) => assert_eq!(count, 0, "{n} wasn't applied"),
            Err(Outcome::Unknown) => assert!(count <= 1, "{n} is there {count} times"),
        }
    }
    assert!(there.is_sorted(), "{there:?}");
}

/// Cases G15, G16 and G17: a tail goes on over crashes, without a hole and without a duplicate.
async fn nothing_acknowledged_is_lost_over_crashes_and_pauses(kind: NatsKind) {
    let mut server = harness::Nats::start(kind, NatsOptions::default()).await;
    let stream = rows_with(server.url(), impatient());
    created(&stream, StreamSettings::new()).await;
    let stop = Arc::<AtomicBool>::default();
    let appending = tokio::spawn(append_until(stream.clone(), stop.clone()));
    let following = tokio::spawn(follow(rows_with(server.url(), impatient()), u64::MAX));
    for round in 0..4 {
        let before = numbers(&rows(server.url()), Start::Earliest).await.len();
        within("some are appended", async {
            while numbers(&rows(server.url()), Start::Earliest).await.len() < before + 50 {}
        })
        .await;
        if round % 2 == 0 {
            server.kill();
            server.restart().await;
        } else {
            server.pause().await;
            tokio::time::sleep(3 * HEARTBEAT).await;
            server.resume().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let fates = within("the appends end", appending).await.unwrap();
    within("the last is appended", async { while stream.append(&1, &row(u64::MAX)).await.is_err() {} }).await;
    let mut seen = within("the tail gets there", following).await.unwrap();
    let mut there = numbers(&stream, Start::Earliest).await;
    assert_eq!(seen, there, "what a tail gave");
    for all in [&mut seen, &mut there] {
        all.retain(|n| *n != u64::MAX);
    }
    hold(&fates, &there);
    assert!(fates.values().any(Result::is_err), "the control: something failed");
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_over_crashes_and_pauses_of_nats_2_10() {
    nothing_acknowledged_is_lost_over_crashes_and_pauses(NatsKind::Nats210).await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_over_crashes_and_pauses_of_nats_2_15() {
    nothing_acknowledged_is_lost_over_crashes_and_pauses(NatsKind::Nats215).await;
}

#[tokio::test]
async fn an_append_that_is_cut_off_midway_is_unknown_and_one_with_an_id_can_be_repeated() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let stream = rows_with(format!("nats://{}", proxy.address()), impatient());
    stream.ensure(StreamSettings::new()).await.unwrap();
    let mut unknown = 0;
    for n in 0..40 {
        // In the request, or in its answer.
        let direction = if n % 2 == 0 { Direction::ToServer } else { Direction::ToClient };
        let bytes = usize::try_from(20 + 25 * n).unwrap();
        proxy.cut_after(direction, bytes, if n % 4 < 2 { Cut::Reset } else { Cut::Finish });
        let (key, entry) = (1, row(n));
        let id = format!("row-{n}");
        let mut failed = 0;
        within("it is appended at last", async {
            while let Err(error) = stream.append_with(Append::new(&key, &entry).id(&id)).await {
                assert!(error.is_transient(), "{error}");
                unknown += u32::from(error.outcome() == Outcome::Unknown);
                failed += 1;
                assert!(failed < 20, "{error}");
            }
        })
        .await;
    }
    assert!(unknown > 0, "the control: some answers were lost");
    assert_eq!(numbers(&rows(server.url()), Start::Earliest).await, (0..40).collect::<Vec<_>>());
}

/// What is asked for behind it, a sign of life, comes no sooner.
#[tokio::test]
async fn a_request_by_itself_has_its_timeout_on_a_server_that_stands_still_for_less() {
    let options = NatsOptions::default().config("max_payload: 8MB\nmax_pending: 32MB");
    let server = harness::Nats::start(NatsKind::Nats210, options).await;
    let stream = rows_with(server.url(), Limits::default().append_bytes(8 << 20).timeout(DEADLINE));
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..3).await;
    // Of the last the system's buffers take a part, and nothing else may be written before its rest.
    for (n, filler) in [(3, 0), (4, 10), (5, 7_000_000)] {
        server.pause().await;
        let standing = async {
            tokio::time::sleep(6 * HEARTBEAT).await;
            server.resume().await;
        };
        let entry = Row { n, filler: "x".repeat(filler) };
        let (appended, ()) = tokio::join!(stream.append(&1, &entry), standing);
        appended.unwrap();
    }
    assert_eq!(numbers(&stream, Start::Earliest).await, (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_paused_server_is_a_timeout_and_close_does_not_wait_for_it() {
    let server = server().await;
    let limits = Limits::default().timeout(Duration::from_millis(300));
    let stream = rows_with(server.url(), limits.clone());
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..3).await;
    server.pause().await;
    let failed = stream.append(&1, &row(3)).await.unwrap_err();
    assert_eq!(failed.outcome(), Outcome::Unknown, "{failed:?}");
    assert!(matches!(failed.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{failed:?}");
    // Nothing can be sent any more.
    let fresh = rows_with(server.url(), limits);
    let failed = fresh.append(&1, &row(4)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Timeout, Outcome::NotApplied), "{failed:?}");
    let failed = fresh.read(Start::Earliest, 1, Duration::ZERO).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Timeout, Outcome::NotApplied), "{failed:?}");
    for stream in [stream, fresh] {
        let reading = tokio::spawn({
            let stream = stream.clone();
            async move { stream.read(Start::Earliest, 1, DEADLINE).await }
        });
        tokio::task::yield_now().await;
        let since = Instant::now();
        stream.broker().close(Duration::from_secs(2)).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        assert!(within("a read ends with the broker", reading).await.unwrap().is_err());
    }
    server.resume().await;
    let there = numbers(&rows(server.url()), Start::Earliest).await;
    assert!(there == [0, 1, 2] || there == [0, 1, 2, 3], "{there:?}");
}

/// Case G17, and G16: the consumer behind a tail is removed again and again, while its connection is fine.
#[tokio::test]
async fn a_tail_outlives_its_consumer() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    let following = tokio::spawn({
        let stream = rows(server.url());
        async move {
            let mut tail = stream.tail(Start::Earliest);
            let mut seen = Vec::new();
            // It is an error to none of them.
            while seen.last() != Some(&299) {
                seen.push(tail.receive().await.unwrap().value().unwrap().n);
            }
            seen
        }
    });
    let context = past(&server).await;
    let there = context.get_stream(NAME).await.unwrap();
    let mut removed = 0;
    for n in 0..300 {
        fill(&stream, [n]).await;
        if n % 10 == 0 {
            let mut names = there.consumer_names();
            while let Some(Ok(name)) = names.next().await {
                removed += u32::from(there.delete_consumer(&name).await.is_ok());
            }
        }
    }
    assert!(removed > 10, "the control: {removed} consumers were removed");
    let seen = within("the tail gets there", following).await.unwrap();
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_that_goes_while_it_is_read_is_absent() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..3).await;
    let mut tail = stream.tail(Start::Latest);
    let read = stream.read(Start::Latest, 1, DEADLINE);
    let removing = async {
        within("they wait", async {
            while server.monitor("/jsz?consumers=1&streams=1").await["consumers"].as_u64() < Some(2) {}
        })
        .await;
        assert!(rows(server.url()).delete().await.unwrap());
    };
    let (tailed, read, ()) = within("they end", async { tokio::join!(tail.receive(), read, removing) }).await;
    assert_eq!(tailed.unwrap_err().kind(), ErrorKind::Absent);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Absent);
    // Made anew, it is followed anew.
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, [7]).await;
    assert_eq!(numbers(&stream, Start::Earliest).await, [7]);
}

async fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(kind: NatsKind) {
    let mut cluster = NatsCluster::start(kind, NatsOptions::default()).await;
    let limits = || Limits::default().timeout(Duration::from_secs(3));
    let stream = rows_with(cluster.url(), limits());
    created(&stream, StreamSettings::new().replicas(3)).await;
    // A majority of three is one beside the first.
    let durable = stream.with_durability(Durability::Replicas(1)).unwrap();
    // A stream that was created just now may be without a leader still.
    within("a durable append", async { while durable.append(&1, &row(0)).await.is_err() {} }).await;
    let failed = stream.with_durability(Durability::Replicas(2)).unwrap().append(&1, &row(0)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unsupported, Outcome::NotApplied), "{failed:?}");
    let different = stream.ensure(StreamSettings::new().replicas(1)).await.unwrap_err();
    assert_eq!(different.kind(), ErrorKind::Conflict, "{different:?}");
    let too_many = stream.ensure(StreamSettings::new().replicas(6)).await.unwrap_err();
    assert_eq!(too_many.kind(), ErrorKind::Unsupported, "{too_many:?}");

    let stop = Arc::<AtomicBool>::default();
    let following = tokio::spawn(follow(rows_with(cluster.url(), limits()), u64::MAX));
    let appending = tokio::spawn({
        let (stream, stop) = (stream.clone(), stop.clone());
        async move {
            let mut fates = Fates::new();
            for n in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let appended = within("appending", stream.append(&(n % 7), &row(n))).await;
                fates.insert(n, appended.map(|_| ()).map_err(|failed| failed.outcome()));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            fates
        }
    });
    for _ in 0..2 {
        let leader = cluster.leader_of(NAME).await;
        cluster.kill(leader);
        cluster.leader_of(NAME).await;
        within("appending goes on", async { while stream.append(&9, &row(0)).await.is_err() {} }).await;
        cluster.restart(leader).await;
    }
    stop.store(true, Ordering::Relaxed);
    let fates = within("the appends end", appending).await.unwrap();
    within("the last is appended", async { while stream.append(&1, &row(u64::MAX)).await.is_err() {} }).await;
    let mut seen = within("the tail gets there", following).await.unwrap();
    let mut there = numbers(&stream, Start::Earliest).await;
    assert_eq!(seen, there, "what a tail gave");
    // A stream whose last record was removed has an end, too.
    let url = cluster.url();
    let one = url.split(',').next().unwrap();
    let jetstream = jetstream::new(async_nats::connect(one).await.unwrap());
    let mut raw = jetstream.get_stream(NAME).await.unwrap();
    let last = raw.info().await.unwrap().state.last_sequence;
    assert!(raw.delete_message(last).await.unwrap());
    assert_eq!(numbers(&stream, Start::Earliest).await, there[..there.len() - 1]);
    for all in [&mut seen, &mut there] {
        all.retain(|n| *n != u64::MAX && *n != 0);
    }
    hold(&fates, &there);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost_on_nats_2_10() {
    a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(NatsKind::Nats210).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost_on_nats_2_15() {
    a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(NatsKind::Nats215).await;
}

/// TLS takes more than a socket does at once, so a write that fails may have sent a part of what was given to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_appended_twice_where_tls_breaks_in_the_middle_of_a_batch() {
    const ROUNDS: u64 = 40;
    const EACH: u64 = 20;
    const LARGE: usize = 900_000;
    let server = harness::Nats::start(NatsKind::Nats210, NatsOptions::default().tls(NatsTls::On)).await;
    let proxy = Proxy::start(server.port()).await;
    let authority = std::fs::read(&server.tls().unwrap().ca).unwrap();
    let client = Nats::new(format!("tls://localhost:{}", proxy.port())).unwrap().authority(authority);
    let stream = Row::stream(&broker_of(client, Limits::default().append_bytes(2 * LARGE))).unwrap();
    created(&stream, StreamSettings::new()).await;
    let mut fates = Fates::new();
    for round in 0..ROUNDS {
        let first = round * (EACH + 1);
        // So that there is a connection.
        fill(&stream, [first]).await;
        fates.insert(first, Ok(()));
        let large = |place| if place > EACH / 2 { LARGE } else { 0 };
        let batch: Vec<Row> =
            (1..=EACH).map(|place| Row { n: first + place, filler: "x".repeat(large(place)) }).collect();
        let cut = if round % 2 == 0 { Cut::Reset } else { Cut::Finish };
        proxy.cut_after(Direction::ToServer, 20_000 + 9_000 * usize::try_from(round).unwrap(), cut);
        let appended = within("a batch ends", stream.append_all(batch.iter().map(|row| (&1, row)))).await.unwrap();
        let fate = |appended: Result<_, tidings::Error>| appended.map(|_| ()).map_err(|failed| failed.outcome());
        fates.extend((first + 1..).zip(appended.into_iter().map(fate)));
    }
    let unknown = fates.values().filter(|fate| **fate == Err(Outcome::Unknown)).count();
    assert!(unknown > 100, "only {unknown} appends were cut");
    let last = ROUNDS * (EACH + 1);
    fill(&stream, [last]).await;
    let mut there = Vec::new();
    let mut tail = stream.tail(Start::Earliest);
    while there.last() != Some(&last) {
        there.push(within("the tail goes on", tail.receive()).await.unwrap().value().unwrap().n);
    }
    hold(&fates, &there);
}
