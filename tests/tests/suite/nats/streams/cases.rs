//! Failures that others met, by their names in the list of cases.

use super::*;

/// Case G09: under one id the first payload stays, and the second append says that it is a duplicate.
#[tokio::test]
async fn g09_another_payload_under_an_id_is_told_as_a_duplicate() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    let (one, two) = (row(1), row(2));
    let first = stream.append_with(Append::new(&1, &one).id("x y")).await.unwrap();
    let second = stream.append_with(Append::new(&2, &two).id("x y")).await.unwrap();
    assert!(!first.duplicate && second.duplicate);
    assert_eq!(first.position, second.position);
    // The control: an id that differs in a letter that headers can't hold as it is.
    assert!(!stream.append_with(Append::new(&2, &two).id("x  y")).await.unwrap().duplicate);
    assert_eq!(numbers(&stream, Start::Earliest).await, [1, 2]);
}

/// Case G10: the window doesn't slide.
#[tokio::test]
async fn g10_a_duplicate_does_not_extend_the_window() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new().dedup_window(Duration::from_secs(1))).await.unwrap();
    let entry = row(1);
    let once = || stream.append_with(Append::new(&1, &entry).id("x"));
    assert!(!once().await.unwrap().duplicate);
    let since = Instant::now();
    // Each of these is a duplicate, until the first one's window is over.
    within("the window passes", async { while once().await.unwrap().duplicate {} }).await;
    assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
}

/// Case G11: a header that ends like the server's own is none of it.
#[tokio::test]
async fn g11_no_header_of_ours_ends_in_a_reserved_name() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    let entry = row(1);
    let append = || Append::new(&1, &entry).header("natsmsgid", "x").header("msgid", "x").id("a");
    stream.append_with(append()).await.unwrap();
    let context = past(&server).await;
    let message = context.get_stream(NAME).await.unwrap().get_raw_message(1).await.unwrap();
    for (name, _) in message.headers.iter() {
        let name = name.to_string();
        let own = matches!(&*name, "Nats-Msg-Id" | "Nats-Expected-Stream");
        assert!(own || !name.to_ascii_lowercase().ends_with("nats-msg-id"), "{name}");
        assert!(own || name.starts_with("ce-"), "{name}");
    }
    // A generated id is an attribute and nothing more: the same record again is another one.
    assert!(!stream.append(&1, &entry).await.unwrap().duplicate);
    assert!(!stream.append(&1, &entry).await.unwrap().duplicate);
}

/// Case G12: an append to no stream fails at once.
#[tokio::test]
async fn g12_an_append_to_no_stream_is_absent_at_once() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let stream = rows_with(server.url(), Limits::default().timeout(DEADLINE));
        let since = Instant::now();
        let failed = stream.append(&1, &row(1)).await.unwrap_err();
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Absent, Outcome::NotApplied), "{failed:?}");
        assert!(failed.to_string().contains("`ensure` creates it"), "{failed}");
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
        assert_eq!(server.monitor("/jsz").await["streams"].as_u64(), Some(0), "nothing creates it in passing");
    }
}

/// Case G13: a stream whose subjects another takes isn't made, and both are named.
#[tokio::test]
async fn g13_a_stream_that_overlaps_another_is_told_by_both_names() {
    let server = server().await;
    let context = past(&server).await;
    let wide = jetstream::stream::Config {
        name: "WIDE".to_owned(),
        subjects: vec!["shop.>".to_owned()],
        ..Default::default()
    };
    context.create_stream(wide).await.unwrap();
    let stream = rows(server.url());
    let failed = stream.ensure(StreamSettings::new()).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Conflict, Outcome::NotApplied), "{failed:?}");
    let text = failed.to_string();
    assert!(text.contains("`WIDE`") && text.contains(NAME), "{text}");
    // The other one is as it was, and takes nothing of ours.
    let mut there = context.get_stream("WIDE").await.unwrap();
    assert_eq!(there.cached_info().config.subjects, ["shop.>"]);
    let failed = stream.append(&1, &row(1)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Absent, Outcome::NotApplied), "{failed:?}");
    assert_eq!(there.info().await.unwrap().state.messages, 0);
    // The control: without it, it is made.
    context.delete_stream("WIDE").await.unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
}

/// Case G15: a tail from a time goes on by sequence.
#[tokio::test]
async fn g15_a_tail_from_a_time_goes_on_by_sequence() {
    let mut server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..5).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = std::time::SystemTime::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    fill(&stream, 5..8).await;
    let mut tail = stream.tail(Start::At(between));
    let mut seen = Vec::new();
    for round in 0..3 {
        if round > 0 {
            server.kill();
            server.restart().await;
        }
        let n = 8 + round;
        within("appending goes on", async { while stream.append(&1, &row(n)).await.is_err() {} }).await;
        while seen.last() != Some(&n) {
            match within("the tail goes on", tail.receive()).await {
                Ok(next) => seen.push(next.value().unwrap().n),
                Err(failed) => assert!(failed.is_transient(), "{failed}"),
            }
        }
    }
    // One that was appended and not confirmed may be there twice, but nothing of before is.
    seen.dedup();
    assert_eq!(seen, (5..11).collect::<Vec<_>>());
}

/// Case G22: a server that comes back with fewer records than were read gives none of the old ones again.
#[tokio::test]
async fn g22_a_position_beyond_the_end_is_waited_for_and_nothing_comes_twice() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..10).await;
    let far = stream.read(Start::Earliest, ALL, Duration::ZERO).await.unwrap().last().unwrap().position();
    // The stream is lost and made anew, with fewer records.
    stream.delete().await.unwrap();
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 100..105).await;
    assert_eq!(numbers(&stream, far).await, Vec::<u64>::new());
    let waiting = stream.read(far, 10, DEADLINE);
    let appending = async { fill(&stream, 105..112).await };
    let (read, ()) = tokio::join!(waiting, appending);
    let first = read.unwrap()[0].value().unwrap().n;
    assert_eq!(first, 110, "what is behind the position, and nothing at or before it");
    assert_eq!(numbers(&stream, far).await, [110, 111]);
}
