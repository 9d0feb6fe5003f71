//! Appending, reading and consuming in the plain.

use tidings_tests::harness::{Cut, Direction};

use super::*;

#[tokio::test]
async fn every_supported_server_keeps_what_is_appended_and_hands_it_out() {
    for kind in Kind::ALL {
        for partitions in [1, 4] {
            let server = Server::start(kind, RedisOptions::default()).await;
            let broker = broker(server.url());
            let stream = Entry::stream(&broker).unwrap();
            let absent = stream.append(&"a".to_owned(), &entry(1)).await.unwrap_err();
            assert_eq!(absent.kind(), ErrorKind::Absent, "{absent:?}");
            let settings = StreamSettings::new().partitions(partitions);
            stream.ensure(settings.clone()).await.unwrap();
            stream.ensure(settings.clone()).await.unwrap();
            let conflict = stream.ensure(settings.clone().max_len(5)).await.unwrap_err();
            assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict:?}");

            let first = append(&stream, 0).await;
            let keys: Vec<String> = (1..300).map(|number| format!("k{number}")).collect();
            let entries: Vec<_> = (1..300).map(entry).collect();
            let receipts = stream.append_all(keys.iter().zip(&entries)).await.unwrap();
            assert_eq!(receipts.len(), 299);
            let mut last = first;
            for receipt in receipts {
                let position = receipt.unwrap().position.unwrap();
                assert!(partitions > 1 || last < position, "{last} {position}");
                last = position;
            }

            let mut read = Vec::new();
            let mut after = Positions::new();
            loop {
                let page = stream.read(after.clone(), 100, Duration::ZERO).await.unwrap();
                if page.is_empty() {
                    break;
                }
                after.extend(page.iter().map(Delivery::position));
                read.extend(page);
            }
            let mut seen = numbers(&read);
            seen.sort_unstable();
            assert_eq!(seen, (0..300).collect::<Vec<_>>());
            let one = read.iter().find(|delivery| delivery.position() == first).unwrap();
            assert_eq!(one.key().unwrap(), "k0");
            assert_eq!(one.source(), Some("/shop/test"));
            assert_eq!(one.event_type(), Some("redis.entries.v1"));
            assert_eq!(one.content_type(), Some("application/json"));
            assert!(one.produced_at().unwrap() <= SystemTime::now());
            assert!(one.id().is_some());

            let group = stream.ack_group("billing").unwrap();
            let consumer = group.consumer("a").unwrap();
            let absent = consumer.read(10, Duration::ZERO).await.unwrap_err();
            assert_eq!(absent.kind(), ErrorKind::Absent, "{absent:?}");
            let absent = consumer.ack([first]).await.unwrap_err();
            assert_eq!(absent.kind(), ErrorKind::Absent, "{absent:?}");
            assert!(group.ensure(Start::Earliest).await.unwrap());
            assert!(!group.ensure(Start::Latest).await.unwrap());
            let mut settled = 0;
            let mut seen = Vec::new();
            for max in [1, 3, 100, 100, 300, 300, 300, 300, 300, 300] {
                let page = within("a read returns", consumer.read(max, SHORT).into_future()).await.unwrap();
                assert!(page.len() <= max);
                assert!(page.iter().all(|delivery| delivery.attempt() == 1));
                settled += consumer.ack(page.iter().map(Delivery::position)).await.unwrap();
                seen.extend(numbers(&page));
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..300).collect::<Vec<_>>(), "{kind} {partitions}");
            assert_eq!(settled, 300);
            assert_eq!(consumer.ack([first]).await.unwrap(), 0);
            let depth = group.depth().await.unwrap();
            assert_eq!((depth.pending, depth.unread), (0, Some(0)));
            assert!(stream.delete().await.unwrap());
            assert!(!stream.delete().await.unwrap());
            broker.close(DEADLINE).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_pending_is_claimed_kept_given_back_and_handed_on() {
    let (_server, broker, stream) = made(StreamSettings::default()).await;
    let mut positions = Vec::new();
    for number in 0..5 {
        positions.push(append(&stream, number).await);
    }
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    assert_eq!(numbers(&a.read(3, Duration::ZERO).await.unwrap()), [0, 1, 2]);
    assert_eq!(numbers(&b.read(3, Duration::ZERO).await.unwrap()), [3, 4]);

    // Its own again, one more delivery each.
    let own = a.history(None, 10).await.unwrap();
    assert_eq!(numbers(&own.deliveries), [0, 1, 2]);
    assert!(own.deliveries.iter().all(|delivery| delivery.attempt() == 2) && own.lost.is_empty());
    let own = a.history(Some(positions[0]), 1).await.unwrap();
    assert_eq!(numbers(&own.deliveries), [1]);

    // Nothing is idle for so long; what is given back is at once, with one delivery less.
    let idle = Duration::from_hours(1);
    assert!(b.claim(idle, 10).await.unwrap().deliveries.is_empty());
    a.release([positions[1], positions[4]]).await.unwrap();
    a.release([positions[1]]).await.unwrap();
    let claimed = b.claim(idle, 10).await.unwrap();
    assert_eq!(numbers(&claimed.deliveries), [1]);
    assert_eq!(claimed.deliveries[0].attempt(), 3);
    assert_eq!(a.extend(positions.clone()).await.unwrap(), [positions[0], positions[2]]);

    assert_eq!(a.ack([positions[0]]).await.unwrap(), 1);
    let pending = group.pending(None, 10).await.unwrap();
    let held: Vec<_> = pending.iter().map(|entry| (entry.position, &*entry.consumer, entry.attempt)).collect();
    assert_eq!(held, [(positions[1], "b", 3), (positions[2], "a", 2), (positions[3], "b", 1), (positions[4], "b", 1)]);
    assert_eq!(group.pending(Some(positions[2]), 1).await.unwrap()[0].position, positions[3]);

    let conflict = group.remove_consumer("b", None).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert_eq!(group.remove_consumer("b", Some("a")).await.unwrap(), 3);
    assert_eq!(group.trim_acknowledged().await.unwrap(), 1);
    assert_eq!(a.ack(positions.clone()).await.unwrap(), 4);
    assert_eq!(group.trim_acknowledged().await.unwrap(), 4);
    broker.close(DEADLINE).await.unwrap();
}

#[stream_spec(name = "redis.parcels", version = 1)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Parcel {
    number: u64,
    filler: String,
}

/// TLS takes more than a socket does at once, so a write that fails may have sent a part of what was given to it.
/// The proxy has a thread of its own, to cut while the client writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_appended_twice_where_tls_breaks_in_the_middle_of_a_batch() {
    const EACH: u64 = 20;
    const LARGE: usize = 3 << 20;
    let server = Server::start(Kind::Redis8, RedisOptions::default().tls().config("appendonly no")).await;
    let proxy = Proxy::start(server.port()).await;
    let authority = std::fs::read(&server.tls().unwrap().ca).unwrap();
    let stream = |port: u16| {
        let client = Redis::new(format!("rediss://localhost:{port}")).unwrap().authority(authority.clone());
        Parcel::stream(&broker_of(client, Limits::default().append_bytes(2 * LARGE))).unwrap()
    };
    // What is read goes past the proxy, which cuts every connection.
    let (stream, past) = (stream(proxy.port()), stream(server.port()));
    stream.ensure(StreamSettings::new()).await.unwrap();
    let mut unknown = 0;
    for round in 0..40 {
        let first = round * (EACH + 1);
        // So that there is a connection.
        let parcel = |number, bytes| Parcel { number, filler: "x".repeat(bytes) };
        within("an append returns", stream.append(&(), &parcel(first, 0))).await.unwrap();
        let parcels: Vec<_> =
            (1..=EACH).map(|place| parcel(first + place, if place < EACH { 0 } else { LARGE })).collect();
        let cut = if round % 2 == 0 { Cut::Reset } else { Cut::Finish };
        proxy.cut_after(Direction::ToServer, 20_000 + 9_000 * usize::try_from(round).unwrap(), cut);
        let sent = within("a batch ends", stream.append_all(parcels.iter().map(|parcel| (&(), parcel)))).await.unwrap();
        let is_unknown =
            |sent: &Result<_, tidings::Error>| matches!(sent, Err(error) if error.outcome() == Outcome::Unknown);
        unknown += usize::from(sent.iter().any(is_unknown));
        let mut there = vec![0; parcels.len()];
        let mut after = past.read(Start::Earliest, 1, Duration::ZERO).await.unwrap()[0].position();
        loop {
            let page = past.read(Start::from(after), 10, Duration::ZERO).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.position();
            for number in page.iter().map(|delivery| delivery.value().unwrap().number) {
                if number > first {
                    there[usize::try_from(number - first - 1).unwrap()] += 1;
                }
            }
        }
        for (outcome, there) in sent.iter().zip(&there) {
            let allowed = match outcome {
                Ok(_) => 1..=1,
                Err(error) if error.outcome() == Outcome::NotApplied => 0..=0,
                Err(_) => 0..=1,
            };
            assert!(allowed.contains(there), "{outcome:?} is there {there} times");
        }
        server.command(&["XTRIM", &format!("{{{}.p0}}:log", stream.address()), "MAXLEN", "1"]).await;
    }
    assert!(unknown > 20, "only {unknown} of the batches were cut");
}
