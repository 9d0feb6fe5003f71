//! What errors say of a server that can't be reached or isn't what it should be.

use std::net::SocketAddr;

use tidings::backend::RedisCluster;
use tidings_tests::harness::free_ports;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::login::whole_text;
use super::*;

/// Answers everything with the same.
async fn answering(with: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 1_024];
                while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                    stream.write_all(with).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn an_error_says_what_is_wrong_with_the_server() {
    let real = server().await;
    let silent = answering(b"").await;
    let web = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let nobody = free_ports(1)[0];
    let refused = format!("couldn't connect to 127.0.0.1:{nobody}: connection refused");
    let cases = [
        ("redis://tidings.invalid".to_owned(), ErrorKind::Unavailable, "the host's name doesn't resolve"),
        (format!("redis://127.0.0.1:{nobody}"), ErrorKind::Unavailable, &*refused),
        ("unix:/nowhere/socket".to_owned(), ErrorKind::Unavailable, "no such socket: /nowhere/socket"),
        (format!("rediss://{silent}"), ErrorKind::Timeout, "the TLS handshake didn't finish in time; does the port"),
        (format!("rediss://{web}"), ErrorKind::Unavailable, "does the port speak TLS?"),
        (format!("redis://{web}"), ErrorKind::Unavailable, "what isn't RESP3; is it Redis at all?"),
        (format!("{}/99", real.url()), ErrorKind::Forbidden, "`ERR` to SELECT: it has no database of that number"),
    ];
    for (url, kind, words) in cases {
        let trusting = Redis::new(&url).unwrap();
        let trusting = if url.starts_with("rediss") { trusting.authority(authority()) } else { trusting };
        let broker = broker_of(trusting, Limits::default().timeout(Duration::from_secs(1)));
        let topic = Counted::topic(&broker).unwrap();
        let check = broker.check(DEADLINE).await.unwrap_err();
        let publish = topic.publish(&"a".to_owned(), &counted(1)).await.unwrap_err();
        let subscribe = topic.subscribe(&"a".to_owned()).await.unwrap_err();
        for error in [check, publish, subscribe] {
            assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotApplied), "{url}: {error:?}");
            assert!(whole_text(&error).contains(words), "{url}: {error:?}");
        }
    }
}

fn authority() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::read(tidings_tests::harness::Tls::generate(folder.path()).ca).unwrap()
}

#[test]
fn an_at_sign_is_asked_for_only_where_a_password_may_stand() {
    let hint = |url: &str| Redis::new(url).unwrap_err().to_string().contains("before an `@`");
    assert!(hint("redis://u:hunter2") && hint("redis://u:"));
    assert!(!hint("redis://h:0") && !hint("redis://h:65536"));
}

#[test]
fn a_cluster_says_that_it_is_one() {
    let config = || Config::new(Namespace::new("shop", "test").unwrap());
    let error = RedisCluster::new(["redis://h/1"]).unwrap_err();
    assert!(error.to_string().contains("redis cluster"), "{error}");
    let error = Broker::new(RedisCluster::new(["redis://h"]).unwrap().authority("x"), config()).unwrap_err();
    assert!(error.to_string().contains("redis cluster"), "{error}");
}
