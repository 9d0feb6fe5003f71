//! Failure cases of ack groups on Redis Streams, by their numbers in public reports.

use super::*;

async fn consumers(server: &Server, stream: &Stream<Entry, Redis>) -> Vec<String> {
    let info = server.command(&["XINFO", "CONSUMERS", &log(stream), "billing"]).await;
    info.elements().iter().map(|consumer| consumer.elements()[1].text()).collect()
}

async fn group_of(stream: &Stream<Entry, Redis>, start: Start) -> AckGroup<Entry, Redis> {
    let group = stream.ack_group("billing").unwrap();
    group.ensure(start).await.unwrap();
    group
}

/// Case E03, and what is claimed after it was trimmed.
#[tokio::test]
async fn what_was_trimmed_while_it_was_pending_is_told_as_lost() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let group = group_of(&stream, Start::Earliest).await;
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    let mut positions = Vec::new();
    for number in 0..4 {
        positions.push(append(&stream, number).await);
    }
    assert_eq!(a.read(4, Duration::ZERO).await.unwrap().len(), 4);
    server.command(&["XTRIM", &log(&stream), "MAXLEN", "=", "2"]).await;
    let own = a.history(None, 10).await.unwrap();
    assert_eq!((numbers(&own.deliveries), own.lost), (vec![2, 3], positions[..2].to_vec()));
    let own = a.history(None, 10).await.unwrap();
    assert_eq!((numbers(&own.deliveries), own.lost), (vec![2, 3], vec![]), "it is told once");
    server.command(&["XTRIM", &log(&stream), "MAXLEN", "=", "1"]).await;
    let claimed = b.claim(Duration::ZERO, 10).await.unwrap();
    assert_eq!((numbers(&claimed.deliveries), claimed.lost), (vec![3], vec![positions[2]]));
    assert_eq!(group.depth().await.unwrap().pending, 1);
}

/// Cases E07 and E20.
#[tokio::test]
async fn an_opened_group_stays_where_it_is_and_its_pending_entries_come_once_more() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let group = group_of(&stream, Start::Earliest).await;
    for number in 0..8 {
        append(&stream, number).await;
    }
    let consumer = group.consumer("a").unwrap();
    let read = consumer.read(5, Duration::ZERO).await.unwrap();
    consumer.ack(read[..2].iter().map(Delivery::position)).await.unwrap();

    let other = broker(server.url());
    let stream = Entry::stream(&other).unwrap();
    let group = stream.ack_group("billing").unwrap();
    assert!(!group.ensure(Start::Earliest).await.unwrap());
    let consumer = group.consumer("a").unwrap();
    let mut tail = consumer.tail(true);
    for number in 2..8 {
        let delivery = within("the next comes", tail.receive()).await.unwrap();
        let again = number < 5;
        assert_eq!((delivery.value().unwrap().number, delivery.attempt()), (number, if again { 2 } else { 1 }));
    }
    drop(tail);
    assert_eq!(group.depth().await.unwrap().pending, 6);
}

/// Case E09.
#[tokio::test]
async fn opening_a_group_again_and_again_adds_no_consumers() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    group_of(&stream, Start::Earliest).await;
    for _ in 0..20 {
        let broker = broker(server.url());
        let stream = Entry::stream(&broker).unwrap();
        let consumer = stream.ack_group("billing").unwrap().consumer("a").unwrap();
        assert!(consumer.read(1, Duration::from_millis(1)).await.unwrap().is_empty());
        broker.close(DEADLINE).await.unwrap();
    }
    assert_eq!(consumers(&server, &stream).await, ["a"]);
}

/// Cases E11 and E22.
#[tokio::test]
async fn claims_in_pages_count_once_each_and_bring_nothing_acknowledged_back() {
    let (_server, _broker, stream) = made(StreamSettings::default()).await;
    let group = group_of(&stream, Start::Earliest).await;
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    for number in 0..300 {
        append(&stream, number).await;
    }
    let read = a.read(300, Duration::ZERO).await.unwrap();
    a.release(read.iter().map(Delivery::position)).await.unwrap();
    let acked: Vec<_> = read.iter().map(Delivery::position).filter(|position| position.offset() % 2 == 0).collect();
    assert_eq!(a.ack(acked.iter().copied()).await.unwrap(), acked.len() as u64);
    let mut claimed = Vec::new();
    loop {
        let page = b.claim(Duration::from_mins(1), 7).await.unwrap();
        if page.deliveries.is_empty() {
            break;
        }
        assert!(page.deliveries.len() <= 7 && page.lost.is_empty());
        assert!(page.deliveries.iter().all(|delivery| delivery.attempt() == 1), "given back, and delivered once more");
        claimed.extend(page.deliveries.iter().map(Delivery::position));
    }
    let left: Vec<_> = read.iter().map(Delivery::position).filter(|position| !acked.contains(position)).collect();
    assert_eq!(claimed, left);
}

/// Case E12.
#[tokio::test]
async fn an_old_owners_acknowledgement_settles_for_all_and_the_new_ones_counts_none() {
    let (_server, _broker, stream) = made(StreamSettings::default()).await;
    let group = group_of(&stream, Start::Earliest).await;
    let [a, b] = ["a", "b"].map(|name| group.consumer(name).unwrap());
    let position = append(&stream, 1).await;
    assert_eq!(a.read(1, Duration::ZERO).await.unwrap().len(), 1);
    assert_eq!(b.claim(Duration::ZERO, 1).await.unwrap().deliveries.len(), 1);
    assert_eq!(a.ack([position]).await.unwrap(), 1);
    assert_eq!(b.ack([position]).await.unwrap(), 0);
    assert_eq!(b.extend([position]).await.unwrap(), []);
    b.release([position]).await.unwrap();
    assert_eq!(group.depth().await.unwrap().pending, 0);
}

/// Case E13.
#[tokio::test]
async fn ids_of_one_millisecond_are_all_read() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    for (id, number) in [("1-0", 0), ("1-1", 1), ("1-18446744073709551615", 2), ("2-0", 3)] {
        server.command(&["XADD", &log(&stream), id, "data", &format!("{{\"number\":{number}}}")]).await;
    }
    let mut after = Positions::new();
    for number in 0..4 {
        let page = stream.read(after.clone(), 1, Duration::ZERO).await.unwrap();
        assert_eq!(numbers(&page), [number]);
        after.extend(page.iter().map(Delivery::position));
    }
    let between = stream.read(Position::of_halves(0, 1, 5), 10, Duration::ZERO).await.unwrap();
    assert_eq!(numbers(&between), [2, 3]);
}

/// Case E14.
#[tokio::test]
async fn a_tail_that_begins_on_an_empty_stream_misses_nothing() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let mut tail = stream.tail(Start::Latest);
    let first = {
        let mut waiting = std::pin::pin!(tail.receive());
        tokio::select! {
            read = &mut waiting => panic!("{read:?}"),
            () = blocked(&server, 1) => {}
        }
        append(&stream, 0).await;
        within("the first comes", waiting).await.unwrap().value().unwrap().number
    };
    let mut seen = vec![first];
    for number in 1..50 {
        append(&stream, number).await;
        if number % 7 == 0 {
            while seen.len() as u64 <= number {
                seen.push(within("more comes", tail.receive()).await.unwrap().value().unwrap().number);
            }
        }
    }
    while seen.len() < 50 {
        seen.push(within("more comes", tail.receive()).await.unwrap().value().unwrap().number);
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

/// Case E15.
#[tokio::test]
async fn a_stream_whose_ids_are_used_up_says_so_for_good() {
    let (server, _broker, stream) = made(StreamSettings::default()).await;
    let last = "18446744073709551615-18446744073709551615";
    server.command(&["XADD", &log(&stream), last, "data", "{\"number\":1}"]).await;
    let value = entry(2);
    let key = "a".to_owned();
    let plain = stream.append(&key, &value).await.unwrap_err();
    let once = stream.append_with(Append::new(&key, &value).id("id-1")).await.unwrap_err();
    for error in [plain, once] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Exhausted, Outcome::NotApplied), "{error:?}");
        assert!(!error.is_transient());
    }
    assert_eq!(
        stream.read(Start::Earliest, 10, Duration::ZERO).await.unwrap()[0].position(),
        Position::new(0, u128::MAX)
    );
}

/// Case E17: neither an error nor another connection.
#[tokio::test]
async fn a_wait_may_be_longer_than_the_timeout() {
    let server = server().await;
    let limits = Limits::default().timeout(Duration::from_millis(200));
    let broker = broker_of(Redis::new(server.url()).unwrap(), limits);
    let stream = Entry::stream(&broker).unwrap();
    stream.ensure(StreamSettings::default()).await.unwrap();
    let consumer = group_of(&stream, Start::Earliest).await.consumer("a").unwrap();
    let connections = async || {
        let clients = server.command(&["INFO", "stats"]).await.text();
        let line = clients.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let wait = Duration::from_millis(700);
    let mut before = 0;
    for round in 0..3 {
        let begun = std::time::Instant::now();
        assert!(consumer.read(1, wait).await.unwrap().is_empty());
        assert!(stream.read(Start::Latest, 1, wait).await.unwrap().is_empty());
        let took = begun.elapsed();
        assert!((2 * wait..3 * wait).contains(&took), "{took:?}");
        let now = connections().await;
        // One of them is the question's own.
        assert!(round == 0 || now == before + 1, "{before} {now}");
        before = now;
    }
}

/// Case E18: the server gives the entry to the one who waits longest, and the other one's time runs on.
#[tokio::test]
async fn a_wait_ends_in_time_though_another_takes_what_comes() {
    for kind in Kind::ALL {
        let server = Server::start(kind, RedisOptions::default()).await;
        // With each heartbeat another would be the one who waits longest.
        let broker = broker_beating(server.url(), WAIT);
        let stream = Entry::stream(&broker).unwrap();
        stream.ensure(StreamSettings::default()).await.unwrap();
        let group = group_of(&stream, Start::Earliest).await;
        let first = tokio::spawn({
            let consumer = group.consumer("a").unwrap();
            async move { consumer.read(1, WAIT).await }
        });
        blocked(&server, 1).await;
        let wait = Duration::from_secs(2);
        let second = tokio::spawn({
            let consumer = group.consumer("b").unwrap();
            async move {
                let begun = std::time::Instant::now();
                (consumer.read(1, wait).await, begun.elapsed())
            }
        });
        blocked(&server, 2).await;
        tokio::time::sleep(wait / 2).await;
        append(&stream, 1).await;
        assert_eq!(numbers(&within("the first has it", first).await.unwrap().unwrap()), [1]);
        let (read, took) = within("the second ends", second).await.unwrap();
        assert!(read.unwrap().is_empty() && (wait..wait * 5 / 4).contains(&took), "{kind}: {took:?}");
    }
}

/// Case E19.
#[tokio::test]
async fn a_stream_that_is_removed_under_a_wait_is_absent() {
    for kind in Kind::ALL {
        let server = Server::start(kind, RedisOptions::default()).await;
        let broker = broker(server.url());
        let stream = Entry::stream(&broker).unwrap();
        stream.ensure(StreamSettings::default()).await.unwrap();
        let group = group_of(&stream, Start::Earliest).await;
        let consumer = group.consumer("a").unwrap();
        let removing = async {
            blocked(&server, 1).await;
            server.command(&["DEL", &log(&stream)]).await;
        };
        let (read, ()) =
            within("it ends", async { tokio::join!(consumer.read(1, WAIT).into_future(), removing) }).await;
        let error = read.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Absent, "{kind}: {error:?}");
        assert!(error.is_transient());
        // Made again, it goes on.
        stream.ensure(StreamSettings::default()).await.unwrap();
        group.ensure(Start::Earliest).await.unwrap();
        append(&stream, 1).await;
        assert_eq!(numbers(&consumer.read(1, WAIT).await.unwrap()), [1]);
    }
}

/// Case E23.
#[tokio::test]
async fn check_warns_of_an_eviction_that_takes_streams() {
    for (policy, told) in [("allkeys-lru", true), ("volatile-lru", false), ("noeviction", false)] {
        let options = RedisOptions::default().config("maxmemory 100mb").config(format!("maxmemory-policy {policy}"));
        let server = Server::start(Kind::Redis8, options).await;
        let broker = broker(server.url());
        Entry::stream(&broker).unwrap();
        let checked = broker.check(DEADLINE).await.unwrap();
        assert_eq!(checked.problems.iter().any(|problem| problem.contains("maxmemory-policy")), told, "{checked:?}");
        assert_eq!(checked.problems.len(), usize::from(told), "{checked:?}");
    }
}
