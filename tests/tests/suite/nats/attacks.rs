//! Servers that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidings::SupervisePolicy;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::streams::{Row, row};
use super::*;

const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"max_payload\":1048576,\"headers\":true}\r\n";

/// A server that greets with something, and says what a test wants when it is sent a line.
struct Fake {
    port: u16,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    /// Nothing as an answer ends the connection.
    async fn start(
        greeting: &'static [u8],
        answer: impl Fn(&str) -> Option<Vec<u8>> + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::<AtomicUsize>::default();
        let task = tokio::spawn({
            let accepted = accepted.clone();
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    accepted.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(stream, greeting, answer.clone()));
                }
            }
        });
        Self { port, accepted, task }
    }

    fn topic(&self) -> Topic<Counted, Nats> {
        let limits = Limits::default().timeout(Duration::from_millis(300));
        Counted::topic(&broker_of(Nats::new(format!("nats://127.0.0.1:{}", self.port)).unwrap(), limits)).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, greeting: &[u8], answer: impl Fn(&str) -> Option<Vec<u8>>) {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    if writer.write_all(greeting).await.is_err() {
        return;
    }
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(answer) = answer(&line) else { return };
        if writer.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// It connects well; everything behind is answered with this.
fn then(answer: &'static [u8]) -> impl Fn(&str) -> Option<Vec<u8>> + Clone {
    let pings = Arc::<AtomicUsize>::default();
    move |line: &str| match line {
        "PING" if pings.fetch_add(1, Ordering::Relaxed) == 0 => Some(b"PONG\r\n".to_vec()),
        line if line.starts_with("CONNECT") => Some(Vec::new()),
        _ if answer.is_empty() => None,
        _ => Some(answer.to_vec()),
    }
}

#[tokio::test]
async fn what_is_no_nats_is_told_and_harms_nobody() {
    let deaf = |_: &str| Some(Vec::new());
    for greeting in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"+OK\r\n",
        b"INFO {]\r\n",
        b"INFO\r\n",
        b"MSG a 1 5\r\nhello\r\n",
        b"\x16\x03\x01\x00\x00",
        b"-ERR 'Authorization Violation'\r\n",
        b"",
    ] {
        let fake = Fake::start(greeting, deaf).await;
        let topic = fake.topic();
        let (kind, outcome) = refused(&topic, "a").await;
        assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout), "{kind:?}");
        assert_eq!(outcome, Outcome::NotApplied, "{:?}", String::from_utf8_lossy(greeting));
        let failed = topic.subscribe(&"a".to_owned()).await.unwrap_err();
        assert_eq!(failed.outcome(), Outcome::NotApplied, "{failed:?}");
    }
}

#[tokio::test]
async fn what_comes_out_of_turn_ends_the_connection_and_what_waits_on_it() {
    for answer in [
        &b""[..],
        b"PONG\r\nPONG\r\nPONG\r\nPONG\r\nPONG\r\n",
        b"+PONG\r\n",
        b"MSG a 1 99999999999\r\n",
        b"HMSG a 1 9 2\r\nab\r\n",
        b"-ERR 'Stale Connection'\r\n",
        b"-ERR 'Authorization Violation'\r\n",
        b"INFO {\r\n",
    ] {
        let fake = Fake::start(INFO, then(answer)).await;
        let topic = fake.topic();
        let failed = within("a publish ends", topic.publish(&"a".to_owned(), &counted(1))).await;
        // Two answers in place of one confirm the first.
        if let Err(failed) = failed {
            assert_eq!(failed.outcome(), Outcome::Unknown, "{:?}: {failed:?}", String::from_utf8_lossy(answer));
        } else {
            assert!(answer.starts_with(b"PONG"));
        }
        let fake = Fake::start(INFO, then(answer)).await;
        match within("a set-up ends", fake.topic().subscribe(&"a".to_owned())).await {
            Err(failed) => assert_eq!(failed.outcome(), Outcome::NotApplied, "{failed:?}"),
            Ok(mut subscription) => {
                assert!(answer.starts_with(b"PONG"));
                assert_eq!(ending(&mut subscription).await.cause(), Some(Cause::Disconnected));
            }
        }
    }
}

#[tokio::test]
async fn what_nobody_asked_for_is_passed_over() {
    let noise = b"+OK\r\nPING\r\nINFO {\"max_payload\":1}\r\nMSG x 99 2\r\nhi\r\nHMSG x 98 r 12 12\r\nNATS/1.0\r\n\r\n\r\n\
                  -ERR 'Permissions Violation for Publish to \"x\"'\r\n-ERR 'Permissions Violation for Subscription to \"x\"'\r\n\
                  -ERR 'something new'\r\n";
    let fake = Fake::start(INFO, move |line| match line {
        "PING" => Some([&noise[..], b"PONG\r\n"].concat()),
        line if line.starts_with("SUB ") => {
            let sid = line.rsplit(' ').next().unwrap_or_default();
            Some(format!("PING\r\n-ERR ''\r\nMSG {} {sid} 12\r\n{{\"number\":0}}\r\n", channel("a")).into_bytes())
        }
        _ => Some(Vec::new()),
    })
    .await;
    let topic = fake.topic();
    publish(&topic, "a", 1).await;
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    // It came before the subscription was confirmed.
    let early = tokio::time::timeout(3 * HEARTBEAT, subscription.receive()).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(fake.accepted.load(Ordering::Relaxed), 2);
}

/// Its reply confirms it otherwise.
#[tokio::test]
async fn a_request_by_itself_asks_for_a_sign_of_life_when_its_reply_is_late() {
    let pings = Arc::<AtomicUsize>::default();
    let silent = Arc::<AtomicBool>::default();
    let fake = Fake::start(INFO, {
        let (pings, silent) = (pings.clone(), silent.clone());
        move |line| {
            let words: Vec<_> = line.split(' ').collect();
            match *words {
                ["PING"] => {
                    pings.fetch_add(1, Ordering::Relaxed);
                    Some(b"PONG\r\n".to_vec())
                }
                ["HPUB", _, reply, ..] if !silent.load(Ordering::Relaxed) => {
                    Some(format!("MSG {reply} 1 22\r\n{{\"stream\":\"x\",\"seq\":7}}\r\n").into_bytes())
                }
                _ => Some(Vec::new()),
            }
        }
    })
    .await;
    let rows = |limits: Limits| {
        let namespace = Namespace::new("shop", "test").unwrap();
        let nats = Nats::new(format!("nats://127.0.0.1:{}", fake.port)).unwrap();
        Row::stream(&Broker::new(nats, Config::new(namespace).limits(limits)).unwrap()).unwrap()
    };
    let calm = rows(Limits::default().heartbeat(DEADLINE));
    let append = async |n| within("an append returns", calm.append(&1, &row(n))).await.unwrap();
    append(0).await;
    let to_connect = pings.load(Ordering::Relaxed);
    for n in 1..4 {
        append(n).await;
    }
    assert_eq!(pings.load(Ordering::Relaxed), to_connect);

    silent.store(true, Ordering::Relaxed);
    let limits = Limits::default().heartbeat(HEARTBEAT).timeout(5 * HEARTBEAT);
    let failed = within("an append ends", rows(limits).append(&1, &row(1))).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{failed:?}");
    assert!(pings.load(Ordering::Relaxed) > 2 * to_connect, "it was asked for a sign of life");
    assert_eq!(fake.accepted.load(Ordering::Relaxed), 2, "which it gave, so the connection stayed");
}

/// Case I14.
#[tokio::test]
async fn a_server_that_accepts_and_drops_is_not_hammered() {
    let fake = Fake::start(INFO, then(b"")).await;
    let topic = fake.topic();
    let supervision = topic
        .supervise(&"a".to_owned(), SupervisePolicy::default())
        .run(async |_: Counted, ()| Ok(()), async |_, ()| Ok(()));
    assert!(tokio::time::timeout(Duration::from_secs(3), supervision).await.is_err(), "it goes on");
    let accepted = fake.accepted.load(Ordering::Relaxed);
    assert!((2..15).contains(&accepted), "{accepted} connections in 3 s");
}
