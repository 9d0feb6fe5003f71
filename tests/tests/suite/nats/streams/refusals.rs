//! What JetStream doesn't take, and why.

use super::super::login::whole_text;
use super::*;

async fn refusal(stream: &Rows, settings: StreamSettings) -> (ErrorKind, Outcome, String) {
    let failed = within("it is refused", stream.ensure(settings)).await.unwrap_err();
    (failed.kind(), failed.outcome(), whole_text(&failed))
}

#[tokio::test]
async fn what_a_stream_cannot_be_is_refused_with_the_remedy() {
    let server = server().await;
    let stream = rows(server.url());
    let minute = Duration::from_mins(1);
    for (settings, word) in [
        (StreamSettings::new().partitions(2), "`partitions`"),
        (StreamSettings::new().replicas(6), "`replicas`"),
        (StreamSettings::new().replicas(3), "one replica"),
        (StreamSettings::new().max_age(minute), "`dedup_window`"),
    ] {
        let (kind, outcome, text) = refusal(&stream, settings).await;
        assert_eq!((kind, outcome), (ErrorKind::Unsupported, Outcome::NotApplied), "{text}");
        assert!(text.contains(word), "{text}");
    }
    let fits = StreamSettings::new().max_age(minute).dedup_window(minute).max_len(10);
    stream.ensure(fits.clone()).await.unwrap();
    stream.ensure(fits.clone()).await.unwrap();
    let (kind, _, text) = refusal(&stream, fits.max_len(11)).await;
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(text.contains("`max_len` is 10, not 11") && text.contains(NAME), "{text}");
    let unsure = stream.with_durability(Durability::Fsync).unwrap_err();
    assert_eq!(unsure.kind(), ErrorKind::Unsupported);
    assert!(unsure.to_string().contains("sync_interval"), "{unsure}");
    assert_eq!(unsure.operation(), tidings::Operation::Bind, "{unsure}");
    let many = stream.with_durability(Durability::Replicas(3)).unwrap().append(&1, &row(1)).await.unwrap_err();
    assert!(many.to_string().contains("`Replicas(3)`"), "{many}");
}

#[tokio::test]
async fn a_server_without_jetstream_says_so() {
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default().core_only()).await;
    let stream = rows(server.url());
    let checked = stream.broker().check(DEADLINE).await.unwrap();
    assert!(checked.problems.iter().any(|problem| problem.contains("JetStream")), "{checked:?}");
    let failures = [
        stream.ensure(StreamSettings::new()).await.unwrap_err(),
        stream.append(&1, &row(1)).await.unwrap_err(),
        stream.read(Start::Earliest, 1, Duration::ZERO).await.unwrap_err(),
    ];
    for failed in failures {
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unsupported, Outcome::NotApplied), "{failed:?}");
        assert!(failed.to_string().contains("`jetstream`"), "{failed}");
    }
}

#[tokio::test]
async fn an_account_without_jetstream_says_so() {
    let accounts = "accounts { A { jetstream: enabled, users: [ { user: a, password: a } ] }\n\
                    B { users: [ { user: b, password: b } ] } }";
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default().config(accounts)).await;
        rows(server.url_as("a:a")).ensure(StreamSettings::new()).await.unwrap();
        let stream = rows(server.url_as("b:b"));
        let failed = within("it is refused", stream.ensure(StreamSettings::new())).await.unwrap_err();
        assert_eq!(failed.outcome(), Outcome::NotApplied, "{failed:?}");
        assert!(whole_text(&failed).contains("JetStream"), "{}", whole_text(&failed));
        assert!(matches!(failed.kind(), ErrorKind::Unsupported | ErrorKind::Unavailable), "{failed:?}");
    }
}

#[tokio::test]
async fn a_full_store_and_a_full_stream_are_told_with_the_remedy() {
    let server = server().await;
    let context = past(&server).await;
    let full = jetstream::stream::Config {
        name: NAME.to_owned(),
        subjects: vec![ADDRESS.to_owned(), format!("{ADDRESS}.>")],
        max_messages: 2,
        discard: jetstream::stream::DiscardPolicy::New,
        max_message_size: 2_000,
        ..Default::default()
    };
    context.create_stream(full).await.unwrap();
    let stream = rows(server.url());
    let large = Row { n: 0, filler: "x".repeat(3_000) };
    let failed = stream.append(&1, &large).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied), "{failed:?}");
    assert!(whole_text(&failed).contains("`max_msg_size`"), "{}", whole_text(&failed));
    fill(&stream, 0..2).await;
    let failed = stream.append(&1, &row(2)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{failed:?}");
    assert!(whole_text(&failed).contains("full"), "{}", whole_text(&failed));
    assert_eq!(numbers(&stream, Start::Earliest).await, [0, 1]);

    // An account that may have one stream.
    let accounts =
        "accounts { A { jetstream: { max_streams: 1, max_file: 100000 }, users: [ { user: a, password: a } ] } }";
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default().config(accounts)).await;
    let stream = rows(server.url_as("a:a"));
    stream.ensure(StreamSettings::new()).await.unwrap();
    let (kind, outcome, text) = {
        let other = Counts::stream(stream.broker()).unwrap();
        let failed = within("it is refused", other.ensure(StreamSettings::new())).await.unwrap_err();
        (failed.kind(), failed.outcome(), whole_text(&failed))
    };
    assert_eq!((kind, outcome), (ErrorKind::Refused, Outcome::NotApplied), "{text}");
    assert!(text.contains("`max_streams`"), "{text}");
    // Its store is full at some time.
    let large = Row { n: 0, filler: "x".repeat(20_000) };
    let failed = within("the store is full", async {
        loop {
            if let Err(failed) = stream.append(&1, &large).await {
                return failed;
            }
        }
    })
    .await;
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{failed:?}");
    assert!(whole_text(&failed).contains("room"), "{}", whole_text(&failed));
}

#[stream_spec(name = "nats.counts", version = 1, key = u64)]
#[derive(Serialize, Deserialize)]
struct Counts {
    n: u64,
}

#[tokio::test]
async fn a_record_larger_than_the_server_takes_is_refused_before_it_is_sent() {
    let options = NatsOptions::default().config("max_payload: 2000");
    let server = harness::Nats::start(NatsKind::Nats210, options).await;
    let stream = rows(server.url());
    let checked = stream.broker().check(DEADLINE).await.unwrap();
    assert!(checked.problems.iter().any(|problem| problem.contains("`append_bytes`")), "{checked:?}");
    stream.ensure(StreamSettings::new()).await.unwrap();
    let (large, small) = (Row { n: 0, filler: "x".repeat(1_900) }, row(1));
    let outcomes = stream.append_all([(&1, &small), (&1, &large), (&1, &small)]).await.unwrap();
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(tidings::Error::kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::TooLarge), None]);
    let headers = (0..9).fold(Append::new(&1, &small), |append, n| append.header(&format!("h{n}"), "y".repeat(200)));
    let failed = stream.append_with(headers).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied), "{failed:?}");
    assert_eq!(numbers(&stream, Start::Earliest).await, [1, 1]);
}

#[tokio::test]
async fn a_user_is_told_what_right_is_missing() {
    let rights = format!(
        "authorization {{ users: [\n\
         {{ user: admin, password: admin }},\n\
         {{ user: writer, password: w, permissions: {{ publish: [\"{ADDRESS}.>\"], subscribe: [\"_INBOX_w.>\"] }} }},\n\
         {{ user: deaf, password: d, permissions: {{ publish: [\">\"], subscribe: [\"nothing\"] }} }} ] }}"
    );
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default().config(rights)).await;
    let stream = rows(server.url_as("admin:admin"));
    stream.ensure(StreamSettings::new()).await.unwrap();

    let deaf = rows(server.url_as("deaf:d"));
    let failed = within("it is refused", deaf.append(&1, &row(1))).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{failed:?}");
    assert!(whole_text(&failed).contains("`inbox_prefix`"), "{}", whole_text(&failed));

    let nats = Nats::new(server.url_as("writer:w")).unwrap().inbox_prefix("_INBOX_w");
    let writer = Row::stream(&broker_of(nats, Limits::default())).unwrap();
    within("it may append", writer.append(&1, &row(1))).await.unwrap();
    let failures = [
        within("it is refused", writer.ensure(StreamSettings::new())).await.unwrap_err(),
        within("it is refused", writer.read(Start::Earliest, 1, Duration::ZERO)).await.unwrap_err(),
        within("it is refused", writer.delete()).await.unwrap_err(),
    ];
    for failed in failures {
        assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{failed:?}");
        assert!(whole_text(&failed).contains("`publish` for `$JS.API."), "{}", whole_text(&failed));
    }
    assert_eq!(numbers(&stream, Start::Earliest).await, [1]);
}

#[tokio::test]
async fn reads_at_once_are_bounded_and_idle_consumers_go() {
    let server = server().await;
    let stream = rows_with(server.url(), Limits::default().subscriptions(2));
    stream.ensure(StreamSettings::new()).await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let stream = stream.clone();
            tokio::spawn(async move { stream.read(Start::Latest, 1, DEADLINE).await })
        })
        .collect();
    let consumers = async || server.monitor("/jsz").await["consumers"].as_u64();
    within("both wait", async { while consumers().await != Some(2) {} }).await;
    let failed = stream.read(Start::Earliest, 1, Duration::ZERO).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Overloaded, Outcome::NotApplied), "{failed:?}");
    for read in waiting {
        read.abort();
    }
    within("their consumers are removed", async { while consumers().await != Some(0) {} }).await;
    assert_eq!(numbers(&stream, Start::Earliest).await, Vec::<u64>::new());
}

#[tokio::test]
async fn what_a_purge_removed_is_told() {
    let server = server().await;
    let stream = rows(server.url());
    stream.ensure(StreamSettings::new()).await.unwrap();
    fill(&stream, 0..10).await;
    let read = stream.read(Start::Earliest, 3, Duration::ZERO).await.unwrap();
    let third = read[2].position();
    let there = past(&server).await.get_stream(NAME).await.unwrap();
    there.purge().await.unwrap();
    // Everything is gone, and what comes next isn't there yet.
    let gone = stream.read(third, 10, Duration::ZERO).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Trimmed { certain: true });
    assert_eq!(gone.first_left().map(|position| position.to_string()), Some("0:11".to_owned()));
    fill(&stream, [10]).await;
    assert_eq!(numbers(&stream, Start::Earliest).await, [10]);
    // One that is removed from the middle leaves the others.
    fill(&stream, 11..14).await;
    there.delete_message(12).await.unwrap();
    assert_eq!(numbers(&stream, Start::Earliest).await, [10, 12, 13]);
    let first = stream.read(Start::Earliest, 1, Duration::ZERO).await.unwrap()[0].position();
    assert_eq!(numbers(&stream, first).await, [12, 13]);
}

#[tokio::test]
async fn large_records_are_read_in_pages_that_the_server_can_send() {
    let options = NatsOptions::default().config("max_payload: 8MB\nmax_pending: 32MB");
    let server = harness::Nats::start(NatsKind::Nats210, options).await;
    let stream = rows_with(server.url(), Limits::default().append_bytes(8 << 20).timeout(DEADLINE));
    stream.ensure(StreamSettings::new()).await.unwrap();
    for n in 0..12 {
        let large = Row { n, filler: "x".repeat(7_000_000) };
        within("appending", stream.append(&1, &large)).await.unwrap();
    }
    fill(&stream, 12..15).await;
    let mut tail = stream.tail(Start::Earliest);
    for n in 0..15 {
        let next = within("the tail goes on", tail.receive()).await.unwrap();
        assert_eq!(next.value().unwrap().n, n);
    }
}

#[tokio::test]
async fn a_change_keeps_what_others_have_set() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let stream = rows(server.url());
        let settings = StreamSettings::new().storage(Storage::Memory);
        stream.ensure(settings.clone()).await.unwrap();
        let context = past(&server).await;
        let config = async || context.get_stream(NAME).await.unwrap().cached_info().config.clone();
        let by_hand = jetstream::stream::Config { description: Some("by hand".to_owned()), ..config().await };
        assert_eq!(by_hand.storage, jetstream::stream::StorageType::Memory);
        context.update_stream(by_hand).await.unwrap();

        stream.update(settings.clone().max_len(7)).await.unwrap();
        let there = config().await;
        assert_eq!((there.max_messages, there.description.as_deref()), (7, Some("by hand")));

        let moved = settings.clone().max_len(7).storage(Storage::File);
        for refused in [stream.update(moved.clone()).await, stream.ensure(moved).await] {
            let refused = refused.unwrap_err();
            assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotApplied), "{refused}");
            assert!(whole_text(&refused).contains("`storage` is memory"), "{}", whole_text(&refused));
        }
        let (word, remedy) = (stream.update(settings.partitions(2)).await.unwrap_err(), "`partitions`");
        assert!(whole_text(&word).contains(remedy), "{word}");
    }
}
