//! What Redis does in its own way: durability, retention, refusals, keys of others, and reads that are given up.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tidings::{Stop, WorkerNotice};
use tidings_tests::harness::Direction;

use super::*;

#[tokio::test]
async fn durability_is_confirmed_or_refused_before_anything_is_sent() {
    let key = "a".to_owned();
    for (kind, appendonly, fsync) in [
        (Kind::Redis7, "yes", false),
        (Kind::Redis8, "yes", true),
        (Kind::Redis8, "no", false),
        (Kind::Valkey8, "yes", true),
    ] {
        // The harness's `appendfsync no` leaves it to the kernel, which confirms nothing.
        let options = RedisOptions::default().config(format!("appendonly {appendonly}")).config("appendfsync always");
        let server = Server::start(kind, options).await;
        let limits = Limits::default().timeout(Duration::from_millis(800));
        let broker = broker_of(Redis::new(server.url()).unwrap(), limits);
        let stream = Entry::stream(&broker).unwrap();
        stream.ensure(StreamSettings::default()).await.unwrap();
        let synced = stream.with_durability(Durability::Fsync).unwrap().append(&key, &entry(1)).await;
        match synced {
            Ok(receipt) => assert!(fsync && receipt.position.is_some()),
            Err(error) => {
                assert!(!fsync, "{error:?}");
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Outcome::NotApplied), "{error:?}");
            }
        }
        let stored = stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap().len();
        assert_eq!(stored, usize::from(fsync));

        // There is no replica, so it is there and not as durable as it should be.
        let error = stream.with_durability(Durability::Replicas(1)).unwrap().append(&key, &entry(2)).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error:?}");
        assert_eq!(stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap().len(), stored + 1);
        append(&stream, 3).await;
    }
}

#[tokio::test]
async fn replicas_confirm_what_many_append_at_once() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let replica = Server::start(Kind::Redis8, RedisOptions::default()).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]).await;
    tidings_tests::harness::eventually("the replica is in step", || async {
        let info = replica.command(&["INFO", "replication"]).await.text();
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
    let durable = stream.with_durability(Durability::Replicas(1)).unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let durable = durable.clone();
            tokio::spawn(async move { append(&durable, number).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(replica.command(&["XLEN", &log(&stream)]).await.integer(), 100);
    let keys: Vec<String> = (0..1_000).map(|number| format!("k{number}")).collect();
    let value = entry(1);
    for receipt in durable.append_all(keys.iter().map(|key| (key, &value))).await.unwrap() {
        receipt.unwrap();
    }
    assert_eq!(replica.command(&["XLEN", &log(&stream)]).await.integer(), 1_100);
}

#[tokio::test]
async fn retention_is_by_count_by_the_servers_clock_or_by_both() {
    let age = Duration::from_secs(1);
    for settings in [
        StreamSettings::new().max_len(100),
        StreamSettings::new().max_age(age),
        StreamSettings::new().max_len(1_000_000).max_age(age),
    ] {
        let (server, _broker, stream) = made(settings.clone()).await;
        let length = async || server.command(&["XLEN", &log(&stream)]).await.integer();
        let keys: Vec<String> = (0..500).map(|number| format!("k{number}")).collect();
        let value = entry(1);
        for receipt in stream.append_all(keys.iter().map(|key| (key, &value))).await.unwrap() {
            receipt.unwrap();
        }
        let first = length().await;
        if settings.max_len == Some(100) {
            assert!((100..=200).contains(&first), "{first}");
            let read = stream.read(Position::of_halves(0, 1, 0), 10, Duration::ZERO).await.unwrap_err();
            assert_eq!(read.kind(), ErrorKind::Trimmed { certain: false }, "{read:?}");
            let left = stream.read(Start::Earliest, 1, Duration::ZERO).await.unwrap();
            assert_eq!(read.first_left(), Some(left[0].position()));
            continue;
        }
        assert_eq!(first, 500);
        let oldest =
            async || server.command(&["XRANGE", &log(&stream), "-", "+", "COUNT", "1"]).await.elements()[0].clone();
        let before = oldest().await;
        within("the old ones go", async {
            while oldest().await == before {
                append(&stream, 2).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn settings_that_differ_are_told_with_how_to_change_them_on_the_server() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let wanted = StreamSettings::new().max_len(100);
    let refused = stream.ensure(wanted.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
    let meta = format!("{{{}}}:meta", stream.address());
    let text = format!(
        "`max_len` is not set there and 100 here; ensure it with the same settings, change them by `HSET {meta}`, or"
    );
    assert!(format!("{refused:#}").contains(&text), "{refused:#}");
    // The records lie by their number.
    let parted = stream.ensure(wanted.clone().partitions(2)).await.unwrap_err();
    assert!(format!("{parted:#}").contains("ensure it with the same settings, or delete it first"), "{parted:#}");
    assert_eq!(stream.update(wanted.clone()).await.unwrap_err().kind(), ErrorKind::Unsupported);

    server.command(&["HSET", &meta, "max_len", "100"]).await;
    stream.ensure(wanted).await.unwrap();
    for number in 0..500 {
        append(&stream, number).await;
    }
    let length = server.command(&["XLEN", &log(&stream)]).await.integer();
    assert!((100..=200).contains(&length), "{length}");
}

#[tokio::test]
async fn an_append_that_does_not_reach_the_disk_names_the_setting() {
    let options = RedisOptions::default().config("appendonly yes").config("appendfsync no");
    let server = Server::start(Kind::Redis8, options).await;
    let broker = broker_of(Redis::new(server.url()).unwrap(), Limits::default().timeout(Duration::from_secs(1)));
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::default()).await.unwrap();
    let key = "a".to_owned();
    let text = async |durability| {
        let error = stream.with_durability(durability).unwrap().append(&key, &entry(1)).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error:?}");
        format!("{error:#}")
    };
    let disk = text(Durability::Fsync).await;
    assert!(disk.contains("set `appendfsync` to `always` or `everysec`"), "{disk}");
    let copies = text(Durability::Replicas(1)).await;
    assert!(copies.contains("too few copies"), "{copies}");
}

/// A position of the stream that was deleted is before all that the one made anew has, of which nothing was removed.
#[tokio::test]
async fn a_stream_that_was_made_anew_is_told_to_those_who_read_the_old_one() {
    let (_server, _broker, stream) = made(StreamSettings::default()).await;
    let old = [append(&stream, 1).await, append(&stream, 2).await];
    let mut tail = stream.tail(old[0]);
    assert_eq!(within("the next comes", tail.receive()).await.unwrap().value().unwrap().number, 2);
    assert!(stream.delete().await.unwrap());
    stream.ensure(StreamSettings::default()).await.unwrap();
    let idle = stream.read(old[1], 10, SHORT).await.unwrap();
    assert!(idle.is_empty(), "nothing was appended behind it yet");
    let mut timed = stream.tail(Start::At(SystemTime::now()));
    assert!(tokio::time::timeout(SHORT, timed.receive()).await.is_err());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let new = [append(&stream, 3).await, append(&stream, 4).await];

    let overtaken = within("it is told", tail.receive()).await.unwrap_err();
    for told in [overtaken, stream.read(old[0], 10, Duration::ZERO).await.unwrap_err()] {
        assert_eq!(told.kind(), ErrorKind::Trimmed { certain: false }, "{told:?}");
        assert_eq!(told.first_left(), Some(new[0]));
    }
    // Told once, it goes on there.
    for number in [3, 4] {
        assert_eq!(within("the next comes", tail.receive()).await.unwrap().value().unwrap().number, number);
    }
    // The control: nothing was missed by who began when there was nothing yet.
    for number in [3, 4] {
        assert_eq!(within("the next comes", timed.receive()).await.unwrap().value().unwrap().number, number);
    }
    let all = stream.read(Position::new(0, 0), 10, Duration::ZERO).await.unwrap();
    assert_eq!(numbers(&all), [3, 4]);
    let all = stream.read(Start::At(SystemTime::UNIX_EPOCH), 10, Duration::ZERO).await.unwrap();
    assert_eq!(numbers(&all), [3, 4]);
}

#[tokio::test]
async fn an_id_is_stored_once_whatever_happens_to_the_script() {
    let (server, _broker, stream) =
        made(StreamSettings::new().partitions(4).dedup_window(Duration::from_secs(1))).await;
    assert_eq!(stream.dedup_window().await.unwrap(), Duration::from_secs(1));
    let value = entry(1);
    let [a, b] = ["a", "b"].map(str::to_owned);
    let once = async |key: &String, id: &str| stream.append_with(Append::new(key, &value).id(id)).await.unwrap();
    let first = once(&a, "id-1").await;
    server.command(&["SCRIPT", "FLUSH"]).await;
    // Under another key, which is in another partition: the ids are the whole stream's.
    let second = once(&b, "id-1").await;
    assert_eq!((first.duplicate, second.duplicate, second.position), (false, true, first.position));
    server.command(&["SCRIPT", "FLUSH"]).await;
    let batch: Vec<_> = ["id-2", "id-1", "id-2"].into_iter().map(|id| Append::new(&a, &value).id(id)).collect();
    let receipts: Vec<_> = stream.append_all(batch).await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(receipts.iter().map(|receipt| receipt.duplicate).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(receipts[1].position, first.position);
    assert_eq!(receipts[2].position, receipts[0].position);
    within("the window passes, whether or not it is asked", async { while once(&a, "id-1").await.duplicate {} }).await;
    let ids = format!("{{{}}}:ids", stream.address());
    for number in 0..40 {
        once(&a, &format!("other-{number}")).await;
    }
    within("what is out of the window goes", async {
        let mut number = 0;
        while server.command(&["HLEN", &ids]).await.integer() > 30 {
            number += 1;
            once(&a, &format!("more-{}", number % 3)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn refusals_are_typed_and_change_nothing() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let value = entry(1);
    let key = "a".to_owned();
    let both = async || {
        let plain = stream.append(&key, &value).await.unwrap_err();
        let once = stream.append_with(Append::new(&key, &value).id("id-1")).await.unwrap_err();
        [plain, once]
    };
    // A failover makes it a replica, which another connection may find to be a primary.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    for error in both().await {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{error:?}");
    }
    server.command(&["REPLICAOF", "NO", "ONE"]).await;
    append(&stream, 1).await;

    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for error in both().await {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{error:?}");
        assert!(error.is_transient());
        let text = format!("{error:#}");
        assert!(text.contains("raise `maxmemory`, or keep less by `max_len` or `trim_acknowledged`"), "{text}");
    }
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    append(&stream, 2).await;

    server.command(&["DEL", &log(&stream)]).await;
    for error in both().await {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Absent, Outcome::NotApplied), "{error:?}");
    }
    server.command(&["SET", &log(&stream), "x"]).await;
    let ensure = stream.ensure(StreamSettings::default()).await.unwrap_err();
    for error in both().await.into_iter().chain([ensure]) {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::NotApplied), "{error:?}");
        assert!(!error.is_transient());
    }
}

#[stream_spec(name = "redis.legacy", version = 1, key = String, address = "legacy-orders", requires(ack_groups))]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Legacy {
    number: u64,
}

/// By how many entries there were, are and were read: it tells apart what the group had, and what went before it was made.
/// Reads what there is; nothing of it was removed before.
async fn rest(one: &tidings::Consumer<Entry, Redis>) -> Vec<u64> {
    let mut read = Vec::new();
    loop {
        let page = one.read(20, Duration::ZERO).await.unwrap();
        if page.is_empty() {
            return read;
        }
        read.extend(numbers(&page));
    }
}

async fn told(one: &tidings::Consumer<Entry, Redis>, first: Position, certain: bool) {
    let trimmed = one.read(9, Duration::ZERO).await.unwrap_err();
    assert_eq!((trimmed.kind(), trimmed.first_left()), (ErrorKind::Trimmed { certain }, Some(first)));
}

#[tokio::test]
async fn what_was_removed_before_a_group_had_it_is_told_exactly() {
    for kind in Kind::ALL {
        let server = Server::start(kind, RedisOptions::default()).await;
        let stream = Entry::stream(&broker(server.url())).unwrap();
        stream.ensure(StreamSettings::new()).await.unwrap();
        let group = async |name: &str, start: Start| {
            let group = stream.ack_group(name).unwrap();
            group.ensure(start).await.unwrap();
            group.consumer("one").unwrap()
        };
        let log = log(&stream);
        let trim = async |before: Position| server.command(&["XTRIM", &log, "MINID", &id(before)]).await;
        let empty = async || server.command(&["XTRIM", &log, "MAXLEN", "0"]).await;
        let fill = async |range: std::ops::Range<u64>| {
            let mut at = Vec::new();
            for number in range {
                at.push(append(&stream, number).await);
            }
            at
        };
        let one = group("g", Start::Earliest).await;
        let at = fill(0..20).await;
        assert_eq!(numbers(&one.read(5, Duration::ZERO).await.unwrap()), [0, 1, 2, 3, 4], "{kind:?}");
        // What it had may go: 5 is left. Then 5, 6 and 7 go.
        trim(at[5]).await;
        assert_eq!(numbers(&one.read(1, Duration::ZERO).await.unwrap()), [5]);
        trim(at[8]).await;
        told(&one, at[8], true).await;
        assert_eq!(rest(&one).await, (8..20).collect::<Vec<_>>());
        // All of it goes, and was had. Then one comes and goes, and was not.
        empty().await;
        let last = append(&stream, 20).await;
        empty().await;
        told(&one, Position::new(0, last.offset() + 1), true).await;
        assert!(rest(&one).await.is_empty());

        // One that is made late misses nothing; of one that begins in the middle the server doesn't count.
        let at = fill(21..24).await;
        assert_eq!(rest(&group("late", Start::Earliest).await).await, [21, 22, 23]);
        let one = group("middle", Start::from(at[0])).await;
        trim(at[2]).await;
        told(&one, at[2], false).await;
        assert_eq!(rest(&one).await, [23]);
        // A group that others have made. One of theirs that begins beyond the end is to have nothing yet.
        server.command(&["XGROUP", "CREATE", &log, "theirs", "0"]).await;
        assert_eq!(rest(&stream.ack_group("theirs").unwrap().consumer("one").unwrap()).await, [23]);
        server.command(&["XGROUP", "CREATE", &log, "far", "9999999999999", "ENTRIESREAD", "0"]).await;
        let far = stream.ack_group("far").unwrap().consumer("one").unwrap();
        empty().await;
        append(&stream, 24).await;
        assert!(rest(&far).await.is_empty());

        // From among the unread one is deleted; that it isn't before the first of them can't be known.
        stream.ack_group("g").unwrap().delete().await.unwrap();
        let one = group("g", Start::Earliest).await;
        let at = fill(25..30).await;
        assert_eq!(numbers(&one.read(2, Duration::ZERO).await.unwrap()), [24, 25]);
        server.command(&["XDEL", &log, &id(at[2])]).await;
        trim(at[1]).await;
        told(&one, at[1], false).await;
        assert_eq!(rest(&one).await, [26, 28, 29]);
    }
}

/// However far a read has got on its way when entries are removed: each is handed out, or its end is told.
#[tokio::test]
async fn what_is_removed_while_a_read_is_on_its_way_is_told() {
    let server = server().await;
    let proxy = Proxy::start(server.port()).await;
    let stream = Entry::stream(&broker(server.url())).unwrap();
    let near = Entry::stream(&broker(proxy.url())).unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
    let group = stream.ack_group("g").unwrap();
    let read = async |one: &tidings::Consumer<Entry, Redis>| match one.read(20, Duration::from_millis(1)).await {
        Ok(page) => numbers(&page),
        Err(trimmed) => {
            assert_eq!(trimmed.kind(), ErrorKind::Trimmed { certain: true });
            vec![u64::MAX]
        }
    };
    let mut length = None;
    for sent in (0_usize..).step_by(97) {
        if length.is_some_and(|length| sent > length) {
            break;
        }
        group.delete().await.unwrap();
        server.command(&["XTRIM", &log(&stream), "MAXLEN", "0"]).await;
        group.ensure(Start::Latest).await.unwrap();
        for number in 0..9 {
            append(&stream, number).await;
        }
        let sixth = append(&stream, 9).await;
        append(&stream, 10).await;
        let one = near.ack_group("g").unwrap().consumer("one").unwrap();
        // It connects and learns the layout.
        assert_eq!(numbers(&one.read(5, Duration::ZERO).await.unwrap()), [0, 1, 2, 3, 4]);

        let before = proxy.counters().to_server;
        if length.is_some() {
            proxy.stall_after(Direction::ToServer, sent);
        }
        let trimming = async {
            if length.is_some() {
                let all = before + u64::try_from(sent).unwrap();
                proxy.wait("so much is sent", |counters| counters.to_server >= all).await;
                server.command(&["XTRIM", &log(&stream), "MINID", &id(sixth)]).await;
                proxy.stall(Direction::ToServer, false);
            }
        };
        let (mut seen, ()) = within("a read", async { tokio::join!(read(&one), trimming) }).await;
        length.get_or_insert(usize::try_from(proxy.counters().to_server - before).unwrap());
        loop {
            let more = read(&one).await;
            if more.is_empty() {
                break;
            }
            seen.extend(more);
        }
        let whole: Vec<u64> = (5..11).collect();
        assert!(seen == whole || seen == [u64::MAX, 9, 10], "{sent}: {seen:?}");
        // The control: what is removed before it is sent is gone, and what isn't removed is there.
        assert!(sent > 0 || seen == whole, "{seen:?}");
    }
}

#[tokio::test]
async fn a_read_that_is_dropped_leaves_it_to_the_next_to_tell_what_was_removed() {
    let (_server, _broker, stream) = made(StreamSettings::new().max_len(1)).await;
    let group = stream.ack_group("g").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let one = group.consumer("one").unwrap();
    let key = "k".to_owned();
    for _ in 0..20 {
        let entries: Vec<_> = (0..300).map(entry).collect();
        stream.append_all(entries.iter().map(|entry| (&key, entry))).await.unwrap();
        let mut dropped = one.read(1, Duration::ZERO);
        let waits = poll_fn(|cx| Poll::Ready(Pin::new(&mut dropped).poll(cx).is_pending())).await;
        assert!(waits, "it has been sent");
        drop(dropped);
        within("it is told", async {
            loop {
                if let Err(trimmed) = one.read(100, Duration::ZERO).await {
                    break assert_eq!(trimmed.kind(), ErrorKind::Trimmed { certain: true });
                }
            }
        })
        .await;
        while !one.read(100, Duration::ZERO).await.unwrap().is_empty() {}
    }
}

/// Of two partitions one is broken, so each operation fails though it was done in the other.
#[tokio::test]
async fn what_was_done_in_part_is_not_said_to_be_undone() {
    for broken in 0..2_u32 {
        let (server, _broker, stream) = made(StreamSettings::new().partitions(2)).await;
        let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
        let entries: Vec<_> = (0..20).map(entry).collect();
        stream.append_all(keys.iter().zip(&entries)).await.unwrap();
        let group = stream.ack_group("g").unwrap();
        group.ensure(Start::Earliest).await.unwrap();
        let one = group.consumer("one").unwrap();
        let mut positions = Vec::new();
        while positions.len() < 20 {
            let read = one.read(20, Duration::ZERO).await.unwrap();
            positions.extend(read.iter().map(Delivery::position));
        }
        let whole: Vec<Position> =
            positions.iter().copied().filter(|position| position.partition() != broken).collect();
        assert!(!whole.is_empty() && whole.len() < 20, "{positions:?}");
        server.command(&["SET", &format!("{{{}.p{broken}}}:log", stream.address()), "x"]).await;

        let check = |what: &str, failed: tidings::Error| {
            assert_eq!(
                (failed.kind(), failed.outcome()),
                (ErrorKind::Conflict, Outcome::Unknown),
                "{what}: {failed:?}"
            );
        };
        check("releasing", one.release(positions.clone()).await.unwrap_err());
        check("extending", one.extend(positions.clone()).await.unwrap_err());
        let handed = group.remove_consumer("one", Some("heir")).await.unwrap_err();
        // It goes from one to the next.
        assert_eq!(handed.outcome(), if broken == 0 { Outcome::NotApplied } else { Outcome::Unknown }, "{handed:?}");
        check("acknowledging", one.ack(positions.clone()).await.unwrap_err());
        check("trimming", group.trim_acknowledged().await.unwrap_err());
        // The control: where nothing was done, that is what is said.
        let refused =
            one.ack(positions.iter().copied().filter(|position| !whole.contains(position))).await.unwrap_err();
        assert_eq!(refused.outcome(), Outcome::NotApplied, "{refused:?}");
        let log = format!("{{{}.p{}}}:log", stream.address(), 1 - broken);
        assert_eq!(server.command(&["XLEN", &log]).await.integer(), 0, "what was acknowledged is trimmed");
        check("deleting", group.delete().await.unwrap_err());
    }
}

/// Who consumes may be who makes room.
#[tokio::test]
async fn a_server_whose_memory_is_full_is_read_from() {
    for kind in Kind::ALL {
        for partitions in [1, 3] {
            let server = Server::start(kind, RedisOptions::default()).await;
            let stream = Entry::stream(&broker(server.url())).unwrap();
            stream.ensure(StreamSettings::new().partitions(partitions)).await.unwrap();
            let group = stream.ack_group("g").unwrap();
            group.ensure(Start::Earliest).await.unwrap();
            for number in 0..100 {
                append(&stream, number).await;
            }
            server.command(&["XTRIM", &log(&stream), "MAXLEN", "1"]).await;
            server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
            let refused = stream.append(&"k".to_owned(), &entry(100)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused, "{refused:?}");
            let one = group.consumer("one").unwrap();
            let (mut read, mut told) = (0, 0);
            loop {
                match one.read(20, Duration::from_millis(1)).await {
                    Ok(page) if page.is_empty() => break,
                    Ok(page) => {
                        one.ack(page.iter().map(Delivery::position)).await.unwrap();
                        read += page.len();
                    }
                    Err(trimmed) => {
                        assert_eq!(trimmed.kind(), ErrorKind::Trimmed { certain: true }, "{kind:?}");
                        assert_eq!(trimmed.first_left().map(Position::partition), Some(0));
                        told += 1;
                    }
                }
            }
            assert_eq!((told, read == 1), (1, partitions == 1), "{kind:?}: {read}");
            assert_eq!(group.trim_acknowledged().await.unwrap(), read as u64);
        }
    }
}

/// One of two partitions can't be read; nothing that is to be told is lost.
#[tokio::test]
async fn what_was_removed_is_told_though_a_read_fails() {
    for max in [1, 20] {
        let (server, _broker, stream) = made(StreamSettings::new().partitions(2)).await;
        let log = |partition: u32| format!("{{{}.p{partition}}}:log", stream.address());
        let group = stream.ack_group("g").unwrap();
        group.ensure(Start::Earliest).await.unwrap();
        let one = group.consumer("one").unwrap();
        let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
        let entries: Vec<_> = (0..20).map(entry).collect();
        stream.append_all(keys.iter().zip(&entries)).await.unwrap();
        for partition in 0..2 {
            server.command(&["XTRIM", &log(partition), "MAXLEN", "1"]).await;
        }
        server.command(&["RENAME", &log(1), &format!("{}.kept", log(1))]).await;
        server.command(&["SET", &log(1), "x"]).await;
        // Each partition is told before it is handed out.
        let mut told = Vec::new();
        let mut read = Vec::new();
        let mut broken = true;
        while read.len() < 2 {
            match one.read(max, Duration::ZERO).await {
                Ok(page) => read.extend(page.iter().map(|delivery| delivery.position().partition())),
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    assert!(std::mem::take(&mut broken), "{error:?}");
                    server.command(&["RENAME", &format!("{}.kept", log(1)), &log(1)]).await;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Trimmed { certain: true });
                    told.extend(error.first_left().map(Position::partition));
                }
            }
            assert!(read.iter().all(|partition| told.contains(partition)), "{read:?}, {told:?}");
        }
        told.sort_unstable();
        assert_eq!((told, broken), (vec![0, 1], false));
    }
}

#[tokio::test]
async fn a_consumer_whose_entries_are_trimmed_beyond_the_first_page_is_removed_in_part() {
    let (server, _broker, stream) = made(StreamSettings::new()).await;
    let mut positions = Vec::new();
    for number in 0..600 {
        positions.push(append(&stream, number).await);
    }
    let group = stream.ack_group("g").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let (one, heir) = (group.consumer("one").unwrap(), group.consumer("heir").unwrap());
    assert_eq!(one.read(600, Duration::ZERO).await.unwrap().len(), 600);
    assert_eq!(server.command(&["XDEL", &log(&stream), &id(positions[400])]).await.integer(), 1);

    let refused = group.remove_consumer("one", Some("heir")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::Unknown), "{refused:?}");
    assert!(refused.to_string().contains("its history tells which"), "{refused}");
    let held = group.pending(None, 600).await.unwrap();
    let of = |name: &str| held.iter().filter(|entry| entry.consumer == name).count();
    assert_eq!((of("heir"), of("one")), (256, 344), "nothing is lost");
    let own = one.history(None, 600).await.unwrap();
    assert_eq!((own.deliveries.len(), own.lost), (343, vec![positions[400]]));
    assert_eq!(group.remove_consumer("one", Some("heir")).await.unwrap(), 343);
    let own = heir.history(None, 600).await.unwrap();
    assert_eq!((own.deliveries.len(), own.lost.len()), (599, 0));
}

#[tokio::test]
async fn a_stream_of_others_is_read_as_it_is() {
    let server = server().await;
    let broker = broker(server.url());
    let stream = Legacy::stream(&broker).unwrap();
    let absent = stream.read(Start::Earliest, 1, Duration::ZERO).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Absent, "{absent:?}");
    server.command(&["XADD", "legacy-orders", "1-1", "number", "1", "ce_id", "x", "ce_trace", "t"]).await;
    server
        .command(&["XADD", "legacy-orders", "1-2", "data", "{\"number\":7}", "ce_time", "2024-05-01T12:00:00.25+02:00"])
        .await;
    server
        .command(&["EVAL", "return redis.call('XADD', 'legacy-orders', '1-3', '\\255', '\\254', 'ce_\\255', 'x', 'ce_id', '\\255', 'ce_type', '\\255', 'ce_time', 'soon', 'data', '\\255')", "0"])
        .await;
    let read = stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap();
    assert!(read[0].value().is_err() && read[0].data().is_empty());
    assert_eq!(read[0].id().unwrap().to_string(), "x");
    assert_eq!((read[0].headers().get("trace"), read[0].headers().iter().len()), (Some("t"), 1));
    assert_eq!((read[0].source(), read[0].event_type(), read[0].content_type()), (None, None, None));
    assert_eq!(read[1].value().unwrap().number, 7);
    assert_eq!(read[1].produced_at(), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_714_557_600_250)));
    assert_eq!(read[1].key_bytes(), None);
    assert_eq!(&read[2].data()[..], b"\xff");
    assert!(read[2].id().is_none() && read[2].produced_at().is_none() && read[2].headers().is_empty());

    // It has the default settings, and keeps no others.
    stream.ensure(StreamSettings::default()).await.unwrap();
    let conflict = stream.ensure(StreamSettings::new().max_len(5)).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict:?}");
    let unsupported = stream.ensure(StreamSettings::new().partitions(2)).await.unwrap_err();
    assert_eq!(unsupported.kind(), ErrorKind::Unsupported, "{unsupported:?}");
    let keys = server.command(&["KEYS", "*"]).await.text();
    assert_eq!(keys, "legacy-orders");
    stream.append(&"a".to_owned(), &Legacy { number: 8 }).await.unwrap();
    assert_eq!(server.command(&["XLEN", "legacy-orders"]).await.integer(), 4);
    assert!(stream.delete().await.unwrap());
    // Made by this library, it has settings beside it.
    stream.ensure(StreamSettings::new().max_len(5)).await.unwrap();
    assert_eq!(server.command(&["HGET", "{legacy-orders}:meta", "max_len"]).await.text(), "5");
}

#[tokio::test]
async fn a_read_that_is_dropped_leaves_no_trace() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    for round in 0..5 {
        let reading = tokio::spawn({
            let (a, stream) = (a.clone(), stream.clone());
            async move { tokio::join!(a.read(1, WAIT).into_future(), stream.read(Start::Latest, 1, WAIT).into_future()) }
        });
        blocked(&server, 2).await;
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        blocked(&server, 0).await;
        append(&stream, round).await;
        assert_eq!(numbers(&b.read(10, Duration::ZERO).await.unwrap()), [round], "nobody else had it");
    }
}

#[tokio::test]
async fn what_a_dropped_read_was_being_handed_is_given_back() {
    let (_server, _broker, stream) = made(StreamSettings::new().partitions(2)).await;
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    let mut seen = Vec::new();
    for number in 0..200_u64 {
        let mut reading = std::pin::pin!(a.read(10, WAIT).into_future());
        let mut appending = std::pin::pin!(append(&stream, number));
        let mut appended = false;
        for _ in 0..number {
            tokio::select! {
                biased;
                read = &mut reading => {
                    seen.extend(numbers(&read.unwrap()));
                    break;
                }
                _ = &mut appending, if !appended => appended = true,
                () = tokio::task::yield_now() => {}
            }
        }
        if !appended {
            appending.await;
        }
    }
    // Idle for an hour is only what was given back.
    within("nothing is left with who doesn't know of it", async {
        while seen.len() < 200 {
            seen.extend(numbers(&b.claim(Duration::from_hours(1), 100).await.unwrap().deliveries));
            seen.extend(numbers(&b.read(100, Duration::from_millis(10)).await.unwrap()));
        }
    })
    .await;
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn as_many_reads_wait_as_there_may_be_subscriptions() {
    let server = server().await;
    let broker = broker_of(Redis::new(server.url()).unwrap(), Limits::default().subscriptions(2));
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::default()).await.unwrap();
    let reading: Vec<_> = (0..2)
        .map(|_| {
            let stream = stream.clone();
            tokio::spawn(async move { stream.read(Start::Latest, 1, WAIT).await })
        })
        .collect();
    blocked(&server, 2).await;
    let error = stream.read(Start::Latest, 1, WAIT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error:?}");
    assert!(stream.read(Start::Latest, 1, Duration::ZERO).await.unwrap().is_empty(), "it doesn't wait");
    append(&stream, 1).await;
    for reading in reading {
        assert_eq!(numbers(&within("it is woken", reading).await.unwrap().unwrap()), [1]);
    }
}

/// The server is asked again with each heartbeat, however long the wait.
#[tokio::test]
async fn a_server_that_stands_still_is_told_to_reads_that_wait() {
    let server = server().await;
    let broker = broker_of(Redis::new(server.url()).unwrap(), Limits::default().timeout(Duration::from_millis(500)));
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::default()).await.unwrap();
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let stop = Stop::new();
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = group.worker("w").until(&stop).on_notice(move |notice| match notice {
        WorkerNotice::Interrupted { error } => drop(sender.send(Some(error.kind()))),
        WorkerNotice::Ready => drop(sender.send(None)),
        _ => {}
    });
    let working = tokio::spawn(worker.run(async |_, ()| Ok(())));
    assert_eq!(within("the worker is ready", told.recv()).await, Some(None));
    let consumer = group.consumer("a").unwrap();
    let mut tail = stream.tail(Start::Latest);
    let hour = Duration::from_hours(1);
    let paused = async {
        blocked(&server, 3).await;
        // Far longer than a heartbeat, nothing is told while the server answers.
        tokio::time::sleep(10 * HEARTBEAT).await;
        blocked(&server, 3).await;
        server.pause().await;
        std::time::Instant::now()
    };
    let waiting = async { tokio::join!(consumer.read(1, hour).into_future(), tail.receive(), told.recv()) };
    let ((read, tailed, interrupted), since) = within("all are told", async { tokio::join!(waiting, paused) }).await;
    let took = since.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for kind in [read.unwrap_err().kind(), tailed.unwrap_err().kind(), interrupted.flatten().unwrap()] {
        assert_eq!(kind, ErrorKind::Timeout);
    }
    server.resume().await;
    stop.stop();
    within("the worker ends", working).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_read_goes_on_over_many_heartbeats_in_its_place() {
    let server = server().await;
    let broker = broker_of(Redis::new(server.url()).unwrap(), Limits::default().subscriptions(2));
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::default()).await.unwrap();
    let group = stream.ack_group("billing").unwrap();
    group.ensure(Start::Earliest).await.unwrap();
    let consumer = group.consumer("a").unwrap();
    let reading = tokio::spawn({
        let stream = stream.clone();
        async move { tokio::join!(stream.read(Start::Latest, 1, WAIT).into_future(), consumer.read(1, WAIT).into_future()) }
    });
    blocked(&server, 2).await;
    // Others don't get in between two waits of the server.
    let until = std::time::Instant::now() + 10 * HEARTBEAT;
    while std::time::Instant::now() < until {
        let error = stream.read(Start::Latest, 1, WAIT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded, "{error:?}");
    }
    append(&stream, 1).await;
    let (read, taken) = within("both are woken", reading).await.unwrap();
    assert_eq!((numbers(&read.unwrap()), numbers(&taken.unwrap())), (vec![1], vec![1]));
}

#[tokio::test]
async fn close_ends_what_waits() {
    let (server, broker, stream) = made(StreamSettings::default()).await;
    let reading = tokio::spawn(async move { stream.read(Start::Latest, 1, WAIT).await });
    blocked(&server, 1).await;
    within("it closes", broker.close(DEADLINE)).await.unwrap();
    let error = within("it ends", reading).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
}

#[tokio::test]
async fn futures_stay_small() {
    let broker = broker("redis://localhost");
    let stream = Entry::stream(&broker).unwrap();
    let size = std::mem::size_of_val(&stream.append(&"a".to_owned(), &entry(1)));
    assert!(size <= 2_048, "{size}");
}
