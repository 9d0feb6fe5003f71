//! URLs, users and certificates.

use std::error::Error as _;
use std::fs;

use super::*;

pub(super) fn whole_text(error: &tidings::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text} {error}");
        source = error.source();
    }
    text
}

#[test]
fn a_url_is_refused_with_a_remedy_and_without_the_credential() {
    let refused = [
        ("hunter2", "no scheme"),
        ("http://u:hunter2@h", "scheme"),
        ("redis:u:hunter2@h", "`//`"),
        ("redis://u:hunter2@", "no host"),
        ("redis://hun ter2", "a name of letters"),
        ("redis://u:hunter2", "port"),
        ("redis://u:hunter2/@h", "percent-encode"),
        ("redis://u:hunter2@h:x", "port"),
        ("redis://u:hunter2@h:0", "port"),
        ("redis://u:hunter2@h/x", "database"),
        ("redis://u:hunter2@h/-1", "database"),
        ("redis://u:hunter2@h?protocol=resp3", "query"),
        ("rediss://u:hunter2@h#insecure", "fragment"),
        ("redis://u:hunter2%zz@h", "%25"),
        ("redis://u:hunter2%ff@h", "UTF-8"),
        ("redis://hunter2@h", "no password"),
        ("redis://u:hunter2@::1", "brackets"),
        ("redis://u:hunter2@[::1", "`]`"),
        ("unix:relative?pass=hunter2", "absolute"),
        ("unix:/socket?password=hunter2", "`db`"),
        ("redis+sentinel://u:hunter2@h", "Sentinel"),
    ];
    for (url, remedy) in refused {
        let error = Redis::new(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = whole_text(&error);
        assert!(text.contains(remedy) && !text.contains("hunter2"), "{url}: {text}");
    }
    for url in ["redis://u:hunter2@h", "rediss://:hunter2@[::1]:7000/3", "unix:///socket?db=1&user=u&pass=hunter2"] {
        let text = format!("{:?}", Redis::new(url).unwrap());
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn certificates_are_looked_at_when_the_broker_is_built() {
    let config = || Config::new(Namespace::new("shop", "test").unwrap());
    let plain = Redis::new("redis://h").unwrap().authority("x");
    assert!(Broker::new(plain, config()).unwrap_err().to_string().contains("rediss://"));
    let empty = Redis::new("rediss://h").unwrap().authority("x");
    assert!(Broker::new(empty, config()).unwrap_err().to_string().contains("PEM"));
}

#[tokio::test]
async fn a_user_logs_in_and_a_wrong_password_is_refused_without_being_told() {
    let options = RedisOptions::default()
        .acl("user default off")
        .acl("user teller on >p@ss:hunter2 resetchannels &shop.test.topic.redis.counted.v1.* +publish +subscribe +unsubscribe +ping");
    let server = Server::start(Kind::Redis8, options).await;
    let teller = broker(server.url_as("teller", "p%40ss%3Ahunter2"));
    let topic = Counted::topic(&teller).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(1));
    assert_eq!(receive(&mut subscription).await, 1);
    assert_eq!(teller.check(DEADLINE).await.unwrap().problems, Vec::<String>::new());

    for url in [server.url_as("teller", "hunter3"), server.url()] {
        let broker = broker(url);
        let topic = Counted::topic(&broker).unwrap();
        let publish = topic.publish(&"a".to_owned(), &counted(1)).await.unwrap_err();
        let subscribe = topic.subscribe(&"a".to_owned()).await.unwrap_err();
        let check = broker.check(DEADLINE).await.unwrap_err();
        for error in [publish, subscribe, check] {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{error:?}");
            assert!(!whole_text(&error).contains("hunter3"));
            assert!(whole_text(&error).contains("URL"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_channel_without_rights_is_refused_alone_and_check_tells_it() {
    let options = RedisOptions::default().acl("user default on nopass resetchannels &*.allowed +@all");
    let server = Server::start(Kind::Redis8, options).await;
    let broker = broker(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let mut allowed = topic.subscribe(&"allowed".to_owned()).await.unwrap();
    let refused = topic.subscribe_keys(&"allowed".to_owned(), &["other".to_owned()]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused:?}");
    let refused = topic.publish(&"other".to_owned(), &counted(1)).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{refused:?}");
    assert_eq!(publish(&topic, "allowed", 2).await, Some(1));
    assert_eq!(receive(&mut allowed).await, 2);
    let problems = broker.check(DEADLINE).await.unwrap().problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, command) in problems.iter().zip([" PUBLISH", " SUBSCRIBE", " PSUBSCRIBE"]) {
        assert!(problem.contains(command), "{problem}");
    }
}

#[tokio::test]
async fn tls_verifies_the_server_and_shows_a_certificate() {
    let options = RedisOptions::default().tls().config("tls-auth-clients yes");
    let server = Server::start(Kind::Redis8, options).await;
    let tls = server.tls().unwrap();
    let read = |path| fs::read(path).unwrap();
    let client = Redis::new(server.url())
        .unwrap()
        .authority(read(&tls.ca))
        .client_certificate(read(&tls.client_certificate), read(&tls.client_key));
    let trusted = broker_of(client, Limits::default());
    let topic = Counted::topic(&trusted).unwrap();
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(1));
    assert_eq!(receive(&mut subscription).await, 1);

    let folder = tempfile::tempdir().unwrap();
    let other = tidings_tests::harness::Tls::generate(folder.path());
    let anonymous = Redis::new(server.url()).unwrap().authority(read(&tls.ca));
    let mistaken = Redis::new(server.url()).unwrap().authority(read(&other.ca));
    for (redis, words) in [(mistaken, "certificate"), (anonymous, "")] {
        let broker = broker_of(redis, Limits::default());
        let error = broker.check(DEADLINE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(whole_text(&error).contains(words), "{error:?}");
    }
}
