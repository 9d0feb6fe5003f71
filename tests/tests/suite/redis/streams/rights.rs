//! Users that may do little with streams.

use super::*;

const KEYS: &str = "~{shop.test.stream.redis.entries.v1.p* ~{shop.test.stream.redis.entries.v1}:*";
const READS: &str = "+info +config|get +acl|whoami +acl|dryrun";
const APPENDS: &str =
    "+hgetall +xadd +xtrim +evalsha +eval +exists +time +zscore +zadd +zrangebyscore +zrem +hset +hget +hdel";
const READING: &str = "+xrange +xread +xinfo|stream +client|unblock";
const GROUPS: &str = "+xreadgroup +xack +xpending +xclaim +xautoclaim +xrevrange +xinfo|groups";

async fn teller(rights: &str) -> (Server, Broker<Redis>, Stream<Entry, Redis>) {
    let acl = format!("user teller on >hunter2 {rights}");
    let server = Server::start(Kind::Redis8, RedisOptions::default().acl("user default off").acl(acl)).await;
    let broker = broker(server.url_as("teller", "hunter2"));
    let stream = Entry::stream(&broker).unwrap();
    (server, broker, stream)
}

#[tokio::test]
async fn check_tells_for_each_use_what_is_missing() {
    let cases: [(String, &[&str]); 4] = [
        (format!("{KEYS} {READS} {APPENDS} {READING} {GROUPS}"), &[]),
        (
            format!("{KEYS} {READS} {APPENDS} {READING}"),
            &["may not consume in a group on the stream `shop.test.stream"],
        ),
        (
            format!("{KEYS} {READS} {READING} {GROUPS} +hgetall +eval +evalsha +time"),
            &["may not append on the stream `shop.test.stream.redis.entries.v1`; grant it `+xadd +xtrim"],
        ),
        (
            format!("~other {READS} {APPENDS} {READING} {GROUPS}"),
            &["may not append", "may not read", "may not consume in a group"],
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
    server.command(&["ACL", "SETUSER", "teller", "-xadd"]).await;
    let plain = stream.append(&key, &value).await.unwrap_err();
    let once = stream.append_with(Append::new(&key, &value).id("id-2")).await.unwrap_err();
    assert_eq!((plain.kind(), once.kind()), (ErrorKind::Forbidden, ErrorKind::Forbidden), "{plain:?} {once:?}");
    assert!(format!("{plain:?}").contains("`+xadd` and the key"), "{plain:?}");
}
