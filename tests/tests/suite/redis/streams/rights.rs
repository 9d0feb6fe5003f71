//! Users that may do little with streams.

use tidings::Stop;

use super::*;

const KEYS: &str = "~{shop.test.stream.redis.entries.v1.p* ~{shop.test.stream.redis.entries.v1}:*";
const READS: &str = "+info +config|get +acl|whoami +acl|dryrun";
const APPENDS: &str =
    "+hgetall +xadd +xtrim +evalsha +eval +exists +time +zscore +zadd +zrangebyscore +zrem +hset +hget +hdel";
const READING: &str = "+xrange +xread +xinfo|stream +client|unblock";
const GROUPS: &str =
    "+multi +exec +xlen +xreadgroup +xack +xpending +xclaim +xautoclaim +xrevrange +xinfo|groups +xgroup|setid";
const ENSURES_GROUPS: &str = "+xgroup|create";
const MANAGES_GROUPS: &str = "+xgroup|destroy +xgroup|delconsumer +xtrim";
const ENSURES: &str = "+hgetall +evalsha +eval +type +exists +hset +xgroup|create +xgroup|destroy +unlink";
const NOT_MANAGING: &str =
    "may not ensure or delete a group, remove a consumer or trim on the stream `shop.test.stream";
const NOT_ENSURING: &str = "may not ensure or delete the stream `shop.test.stream.redis.entries.v1`; grant it `+";

async fn teller(rights: &str) -> (Server, Broker<Redis>, Stream<Entry, Redis>) {
    let acl = format!("user teller on >hunter2 {rights}");
    let server = Server::start(Kind::Redis8, RedisOptions::default().acl("user default off").acl(acl)).await;
    let broker = broker(server.url_as("teller", "hunter2"));
    let stream = Entry::stream(&broker).unwrap();
    (server, broker, stream)
}

#[tokio::test]
async fn check_tells_for_each_use_what_is_missing() {
    let managing = format!("{ENSURES_GROUPS} {MANAGES_GROUPS} {ENSURES}");
    let cases: [(String, &[&str]); 5] = [
        (format!("{KEYS} {READS} {APPENDS} {READING} {GROUPS} {managing}"), &[]),
        (format!("{KEYS} {READS} {APPENDS} {READING} {GROUPS}"), &[NOT_MANAGING, NOT_ENSURING]),
        (
            format!("{KEYS} {READS} {APPENDS} {READING} {managing}"),
            &["may not consume in a group on the stream `shop.test.stream"],
        ),
        (
            format!("{KEYS} {READS} {READING} {GROUPS} {managing} -xtrim +time"),
            &["may not append on the stream `shop.test.stream.redis.entries.v1`; grant it `+xadd +xtrim", NOT_MANAGING],
        ),
        (
            format!("~other {READS} {APPENDS} {READING} {GROUPS} {managing}"),
            &["may not append", "may not read", "may not consume in a group", NOT_MANAGING, NOT_ENSURING],
        ),
    ];
    for (rights, problems) in cases {
        let (_server, broker, _stream) = teller(&rights).await;
        let checked = broker.check(DEADLINE).await.unwrap();
        let told = &checked.problems;
        let same = told.len() == problems.len() && told.iter().zip(problems).all(|(it, words)| it.contains(words));
        assert!(same && checked.unchecked.is_empty(), "{rights}: {checked:?}");
    }
}

/// A user that has everything that one row of the docs' table says, and a service that has it all.
async fn of_row(rights: &str) -> (Server, Stream<Entry, Redis>, Stream<Entry, Redis>) {
    let (server, _, stream) = teller(&format!("{KEYS} {rights}")).await;
    server.command(&["ACL", "SETUSER", "all", "on", ">hunter2", "~*", "+@all"]).await;
    let all = Entry::stream(&broker(server.url_as("all", "hunter2"))).unwrap();
    (server, all, stream)
}

#[tokio::test]
async fn who_may_append_appends() {
    let rights = "+hgetall +xadd";
    let ids = "+evalsha +eval +exists +time +zscore +zadd +zrangebyscore +zrem +hset +hget +hdel";
    let plain = StreamSettings::new();
    let aging = plain.clone().max_len(100).max_age(Duration::from_hours(1));
    for (rights, settings, once) in [
        (rights.to_owned(), plain.clone(), false),
        (format!("{rights} +xtrim"), aging, false),
        (format!("{rights} {ids}"), plain.dedup_window(Duration::from_secs(1)), true),
    ] {
        let (server, all, stream) = of_row(&rights).await;
        all.ensure(settings).await.unwrap();
        let before = refusals(&server).await;
        let value = entry(1);
        for number in 0..200 {
            let (key, id) = ("a".to_owned(), format!("id-{number}"));
            let append = Append::new(&key, &value);
            stream.append_with(if once { append.id(&*id) } else { append }).await.unwrap();
        }
        if once {
            // What is out of the window is removed.
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            stream.append_with(Append::new(&"a".to_owned(), &value).id("late")).await.unwrap();
        }
        assert_eq!(refusals(&server).await, before, "nothing is refused in silence");
    }
}

/// How many refusals the server has logged for lack of a right.
async fn refusals(server: &Server) -> usize {
    server.command(&["ACL", "LOG"]).await.elements().len()
}

#[tokio::test]
async fn who_may_read_reads() {
    let (_server, all, stream) = of_row(&format!("+hgetall {READING} +evalsha +eval")).await;
    all.ensure(StreamSettings::new()).await.unwrap();
    let first = append(&all, 1).await;
    append(&all, 2).await;
    assert_eq!(numbers(&stream.read(Start::Earliest, 10, SHORT).await.unwrap()), [1, 2]);
    assert_eq!(numbers(&stream.read(Start::At(SystemTime::UNIX_EPOCH), 10, SHORT).await.unwrap()), [1, 2]);
    assert_eq!(numbers(&stream.read(first, 10, SHORT).await.unwrap()), [2]);
    assert!(stream.read(Start::Latest, 10, SHORT).await.unwrap().is_empty());
    // The script is asked where a position's record isn't there.
    assert_eq!(numbers(&stream.read(Position::new(0, 0), 10, SHORT).await.unwrap()), [1, 2]);
    assert_eq!(stream.dedup_window().await.unwrap(), Duration::from_mins(2));
    let mut tail = stream.tail(first);
    assert_eq!(within("the next comes", tail.receive()).await.unwrap().value().unwrap().number, 2);
}

/// What was removed is looked for with each read, which takes all of the rights. Nothing is handed out in silence without.
#[tokio::test]
async fn who_may_not_look_for_what_is_missing_is_told() {
    for (missing, sees) in [
        ("+xgroup|setid", "0 forbidden 2 end"),
        ("+multi", "forbidden 0 trimmed forbidden 2 forbidden"),
        ("+exec", "forbidden forbidden forbidden"),
    ] {
        let rights = GROUPS.replace(missing, "");
        let (server, all, stream) = of_row(&format!("+hgetall {READING} +evalsha +eval {rights}")).await;
        all.ensure(StreamSettings::new()).await.unwrap();
        all.ack_group("billing").unwrap().ensure(Start::Earliest).await.unwrap();
        for number in 0..3 {
            append(&all, number).await;
        }
        let one = stream.ack_group("billing").unwrap().consumer("one").unwrap();
        let mut seen = Vec::new();
        let mut trimmed = false;
        for _ in sees.split(' ') {
            seen.push(match one.read(1, Duration::ZERO).await {
                Ok(page) => page.first().map_or("end".to_owned(), |entry| entry.value().unwrap().number.to_string()),
                Err(error) if error.kind() == ErrorKind::Forbidden => "forbidden".to_owned(),
                Err(error) => format!("{:?}", error.kind()).to_lowercase().replace(" { certain: true }", ""),
            });
            if seen.last().is_some_and(|seen| seen == "0") && !std::mem::replace(&mut trimmed, true) {
                server.command(&["XTRIM", &log(&stream), "MAXLEN", "1"]).await;
            }
        }
        assert_eq!(seen.join(" "), sees, "without {missing}");
    }
}

#[tokio::test]
async fn who_may_consume_works() {
    let (server, all, stream) = of_row(&format!("+hgetall {READING} +evalsha +eval {GROUPS} +time")).await;
    all.ensure(StreamSettings::new()).await.unwrap();
    all.ack_group("billing").unwrap().ensure(Start::Earliest).await.unwrap();
    append(&all, 1).await;
    let before = refusals(&server).await;
    let consumer = stream.ack_group("billing").unwrap().consumer("a").unwrap();
    assert_eq!(consumer.read(1, SHORT).await.unwrap().len(), 1);
    consumer.release([append(&all, 2).await]).await.unwrap();
    work(&stream, 2).await;
    assert_eq!(refusals(&server).await, before, "nothing is refused in silence");
}

/// Runs a worker, which claims as well, until it has handled so many.
async fn work(stream: &Stream<Entry, Redis>, count: usize) {
    let stop = Stop::new();
    let group = stream.ack_group("billing").unwrap();
    let (seen, ends) = (std::sync::atomic::AtomicUsize::new(0), stop.clone());
    let worker = group.worker("w").claim_after(Duration::from_millis(30)).until(&stop);
    let run = worker.run(move |_, ()| {
        if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == count {
            ends.stop();
        }
        std::future::ready(Ok(()))
    });
    within("the worker ends", run).await.unwrap();
}

#[tokio::test]
async fn who_may_ensure_a_group_makes_it_anew() {
    let (server, all, stream) = of_row(&format!("+hgetall {READING} +evalsha +eval {ENSURES_GROUPS}")).await;
    all.ensure(StreamSettings::new()).await.unwrap();
    let group = stream.ack_group("billing").unwrap();
    for (round, start) in [Start::Earliest, Start::Latest, Start::After(Positions::new())].into_iter().enumerate() {
        assert!(group.ensure(start).await.unwrap(), "{round}");
        assert!(all.ack_group("billing").unwrap().delete().await.unwrap());
    }
    group.ensure(Start::Earliest).await.unwrap();
    let consuming: Vec<&str> = GROUPS.split(' ').chain(["+time"]).collect();
    server.command(&[&["ACL", "SETUSER", "teller"], &consuming[..]].concat()).await;
    let stop = Stop::new();
    let (sender, mut handled) = tokio::sync::mpsc::unbounded_channel();
    let worker = group.worker("w").until(&stop);
    let working = tokio::spawn(worker.run(move |delivery: Delivery<Entry>, ()| {
        let _ = sender.send(delivery.value().unwrap().number);
        std::future::ready(Ok(()))
    }));
    append(&all, 1).await;
    assert_eq!(within("it is handled", handled.recv()).await, Some(1));
    all.ack_group("billing").unwrap().delete().await.unwrap();
    append(&all, 2).await;
    within("the group is made anew", async { while handled.recv().await != Some(2) {} }).await;
    stop.stop();
    within("the worker ends", working).await.unwrap().unwrap();
    assert_eq!(server.command(&["XPENDING", &log(&stream), "billing"]).await.elements()[0].integer(), 0);
}

#[tokio::test]
async fn who_may_manage_groups_does() {
    let rights = format!("+hgetall {READING} +evalsha +eval {GROUPS} +time {MANAGES_GROUPS}");
    let (_server, all, stream) = of_row(&rights).await;
    all.ensure(StreamSettings::new()).await.unwrap();
    all.ack_group("billing").unwrap().ensure(Start::Earliest).await.unwrap();
    let group = stream.ack_group("billing").unwrap();
    let position = append(&all, 1).await;
    assert_eq!(group.consumer("a").unwrap().read(1, SHORT).await.unwrap().len(), 1);
    assert_eq!(group.remove_consumer("a", Some("b")).await.unwrap(), 1);
    assert_eq!(group.consumer("b").unwrap().ack([position]).await.unwrap(), 1);
    assert_eq!(group.remove_consumer("b", None).await.unwrap(), 0);
    assert_eq!(group.trim_acknowledged().await.unwrap(), 1);
    assert!(group.delete().await.unwrap());
}

#[tokio::test]
async fn who_may_ensure_a_stream_does_and_deletes_it() {
    let (_server, all, stream) = of_row(ENSURES).await;
    let settings = StreamSettings::new().max_len(5).max_age(Duration::from_mins(1));
    for _ in 0..2 {
        stream.ensure(settings.clone()).await.unwrap();
        append(&all, 1).await;
        let conflict = stream.ensure(StreamSettings::new()).await.unwrap_err();
        assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict:?}");
        assert!(stream.delete().await.unwrap());
    }
}

/// What check asks for is all that is needed, and what is missing is forbidden by its name.
#[tokio::test]
async fn a_service_needs_no_more_than_check_asks_for() {
    let (server, _broker, stream) = teller(&format!("{KEYS} {READS} {APPENDS} {READING} {GROUPS}")).await;
    let meta = format!("{{{}}}:meta", stream.address());
    let fields = ["layout", "1", "partitions", "1", "max_len", "", "max_age_ms", "", "dedup_window_ms", "120000"];
    server.command(&[&["HSET", &meta][..], &fields].concat()).await;
    server.command(&["XGROUP", "CREATE", &log(&stream), "billing", "0", "MKSTREAM"]).await;
    let (key, value) = ("a".to_owned(), entry(1));
    for _ in 0..2 {
        stream.append_with(Append::new(&key, &value).id("id-1")).await.unwrap();
    }
    append(&stream, 2).await;
    assert_eq!(numbers(&stream.read(Start::Earliest, 10, SHORT).await.unwrap()), [1, 2]);
    assert!(stream.read(Start::Latest, 10, SHORT).await.unwrap().is_empty());
    let group = stream.ack_group("billing").unwrap();
    let consumer = group.consumer("a").unwrap();
    let read = consumer.read(10, SHORT).await.unwrap();
    assert_eq!(read.len(), 2);
    let positions: Vec<_> = read.iter().map(Delivery::position).collect();
    assert_eq!(consumer.extend(positions.clone()).await.unwrap().len(), 2);
    consumer.release(positions.clone()).await.unwrap();
    assert_eq!(consumer.history(None, 10).await.unwrap().deliveries.len(), 2);
    assert_eq!(consumer.claim(Duration::ZERO, 10).await.unwrap().deliveries.len(), 2);
    assert_eq!(group.pending(None, 10).await.unwrap().len(), 2);
    assert_eq!(group.depth().await.unwrap().pending, 2);
    assert_eq!(consumer.ack(positions).await.unwrap(), 2);

    let error = group.delete().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{error:?}");
    assert!(format!("{error:?}").contains("`+xgroup|destroy`"), "{error:?}");
    // What a script may not do is told by check. It may have done something before.
    let error = stream.ensure(StreamSettings::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Forbidden, Outcome::Unknown), "{error:?}");
    assert!(format!("{error:?}").contains("`Broker::check` tells what to grant"), "{error:?}");
    let told = stream.broker().check(DEADLINE).await.unwrap().problems;
    assert!(
        told[1].contains(NOT_ENSURING) && told[1].contains("+type +xgroup|create +xgroup|destroy +unlink"),
        "{told:?}"
    );
    server.command(&["ACL", "SETUSER", "teller", "-xadd"]).await;
    let plain = stream.append(&key, &value).await.unwrap_err();
    let once = stream.append_with(Append::new(&key, &value).id("id-2")).await.unwrap_err();
    assert_eq!((plain.kind(), once.kind()), (ErrorKind::Forbidden, ErrorKind::Forbidden), "{plain:?} {once:?}");
    assert!(format!("{plain:?}").contains("`+xadd` and the key"), "{plain:?}");
}
