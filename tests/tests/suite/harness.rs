//! The harness itself: what tests rely on when they blame the library.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tidings_tests::harness::{
    Cluster, Cut, Direction, Kind, Proxy, RedisOptions, Refusal, Replicas, Server, eventually, within,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Long enough for anything on loopback to arrive: the wait for something that mustn't.
const A_MOMENT: Duration = Duration::from_millis(100);

macro_rules! on_every_kind {
    ($($case:ident),* $(,)?) => {
        mod redis_7 {
            use super::Kind;
            $(#[tokio::test] async fn $case() { super::$case(Kind::Redis7).await; })*
        }
        mod redis_8 {
            use super::Kind;
            $(#[tokio::test] async fn $case() { super::$case(Kind::Redis8).await; })*
        }
        mod valkey_8 {
            use super::Kind;
            $(#[tokio::test] async fn $case() { super::$case(Kind::Valkey8).await; })*
        }
    };
}

on_every_kind! {
    a_server_is_of_its_kind,
    a_paused_server_answers_when_it_goes_on,
    a_killed_server_keeps_its_port_and_data,
    an_access_list_holds_for_clients,
    a_tls_port_speaks_no_plain_text,
    a_cluster_fails_over_and_moves_slots,
    a_cluster_survives_the_crash_of_a_primary,
    a_cluster_without_replicas_comes_back,
}

async fn plain(kind: Kind) -> Server {
    Server::start(kind, RedisOptions::default()).await
}

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.expect("somebody listens")
}

async fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    within("bytes arrive", stream.read_exact(&mut bytes)).await.expect("the connection is open");
    bytes
}

async fn ping(stream: &mut TcpStream) {
    stream.write_all(PING).await.expect("the connection is open");
    assert_eq!(receive(stream, PONG.len()).await, PONG);
}

async fn is_silent(stream: &TcpStream) -> bool {
    timeout(A_MOMENT, stream.peek(&mut [0])).await.is_err()
}

async fn a_server_is_of_its_kind(kind: Kind) {
    let server = plain(kind).await;
    let info = server.command(&["INFO", "server"]).await.text();
    let expected = match kind {
        Kind::Redis7 => "redis_version:7.0.",
        Kind::Redis8 => "redis_version:8.",
        Kind::Valkey8 => "valkey_version:8.1.",
    };
    assert!(info.contains(expected), "{info}");
    // The id is the server's own, not that of what started it.
    assert!(info.contains(&format!("process_id:{}\r\n", server.pid())), "{info}");
    assert!(server.try_command(&["NONSENSE"]).await.expect("it answers").is_error());
    ping(&mut connect(server.port()).await).await;

    let folder = server.folder().to_owned();
    drop(server);
    assert!(!folder.exists());
}

async fn a_paused_server_answers_when_it_goes_on(kind: Kind) {
    let server = plain(kind).await;
    let mut client = connect(server.port()).await;
    ping(&mut client).await;
    server.pause().await;
    client.write_all(PING).await.expect("the kernel takes it");
    assert!(is_silent(&client).await);
    server.resume().await;
    assert_eq!(receive(&mut client, PONG.len()).await, PONG);
    // A paused one can be killed as well.
    server.pause().await;
}

async fn a_killed_server_keeps_its_port_and_data(kind: Kind) {
    let mut server = plain(kind).await;
    let (port, pid) = (server.port(), server.pid());
    server.command(&["XADD", "orders", "1-1", "id", "7"]).await;
    server.command(&["XGROUP", "CREATE", "orders", "billing", "0"]).await;
    server.command(&["XREADGROUP", "GROUP", "billing", "one", "STREAMS", "orders", ">"]).await;
    let mut client = connect(port).await;
    ping(&mut client).await;

    server.kill();
    assert!(!server.is_running());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(matches!(within("the end", client.read(&mut [0])).await, Ok(0) | Err(_)));
    let refused = TcpStream::connect(("127.0.0.1", port)).await;
    assert_eq!(refused.expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);

    server.restart().await;
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.command(&["XLEN", "orders"]).await.integer(), 1);
    assert_eq!(server.command(&["XPENDING", "orders", "billing"]).await.elements()[0].integer(), 1);
    ping(&mut connect(port).await).await;
}

async fn an_access_list_holds_for_clients(kind: Kind) {
    let options = RedisOptions::default().password("secret").acl("user reader on >pass ~news:* +get");
    let server = Server::start(kind, options).await;
    let mut client = connect(server.port()).await;
    client.write_all(PING).await.expect("the connection is open");
    assert_eq!(receive(&mut client, 7).await, b"-NOAUTH");
    assert_eq!(server.command(&["ACL", "WHOAMI"]).await.text(), "harness");
    assert_eq!(server.url_as("reader", "pass"), format!("redis://reader:pass@127.0.0.1:{}", server.port()));
}

async fn a_tls_port_speaks_no_plain_text(kind: Kind) {
    let server = Server::start(kind, RedisOptions::default().tls()).await;
    let mut client = connect(server.port()).await;
    client.write_all(PING).await.expect("the connection is open");
    let mut answer = Vec::new();
    // Either a TLS alert or a reset.
    let _ = within("the server hangs up", client.read_to_end(&mut answer)).await;
    assert_ne!(answer.get(..PONG.len()), Some(PONG));
    assert!(server.url().starts_with("rediss://localhost:"));
    assert!(server.tls().expect("it has certificates").ca.is_file());
    assert_eq!(server.command(&["PING"]).await.text(), "PONG");
}

async fn a_cluster_fails_over_and_moves_slots(kind: Kind) {
    let mut cluster = Cluster::start(kind, Replicas::One, RedisOptions::default()).await;
    let slot = cluster.slot_of("orders").await;
    let first = cluster.primary_of(slot).await;
    cluster.nodes()[first].command(&["SET", "orders", "7"]).await;

    let second = cluster.fail_over(slot).await;
    assert_ne!(second, first);
    assert_eq!(cluster.primary_of(slot).await, second);
    assert_eq!(cluster.nodes()[second].command(&["GET", "orders"]).await.text(), "7");

    let target = cluster.primary_of((slot + 6_000) % 16_384).await;
    assert_ne!(target, second);
    cluster.move_slot(slot, target).await;
    assert_eq!(cluster.primary_of(slot).await, target);
    assert_eq!(cluster.nodes()[target].command(&["GET", "orders"]).await.text(), "7");
    let moved = cluster.nodes()[second].try_command(&["GET", "orders"]).await.expect("it answers");
    assert_eq!(moved.text(), format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes()[target].port()));
}

async fn a_cluster_survives_the_crash_of_a_primary(kind: Kind) {
    let mut cluster = Cluster::start(kind, Replicas::One, RedisOptions::default()).await;
    let crashed = cluster.primary_of(0).await;
    let heir = cluster.crash_primary_of(0).await;
    assert_ne!(heir, crashed);
    cluster.restart(crashed).await;
    cluster.wait_until_ok().await;
    assert_eq!(cluster.primary_of(0).await, heir);
    assert_eq!(cluster.replica_of(0).await, crashed);
}

async fn a_cluster_without_replicas_comes_back(kind: Kind) {
    let mut cluster = Cluster::start(kind, Replicas::None, RedisOptions::default()).await;
    assert_eq!(cluster.urls().len(), 3);
    cluster.kill(1);
    eventually("the others notice", || async {
        let info = cluster.nodes()[0].command(&["CLUSTER", "INFO"]).await.text();
        if info.contains("cluster_state:fail") { Ok(()) } else { Err(info) }
    })
    .await;
    cluster.restart(1).await;
    cluster.wait_until_ok().await;
    assert_eq!(cluster.primary_of(8_000).await, 1);
}

#[tokio::test]
async fn a_server_that_refuses_its_configuration_says_why() {
    let start = Server::start(Kind::Redis8, RedisOptions::default().config("no-such-setting 1"));
    let panic = tokio::spawn(start).await.expect_err("it can't start").into_panic();
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("no-such-setting"), "{message}");
}

#[test]
fn a_missing_server_names_the_command_that_gets_it() {
    let missing = Kind::Redis8.find(None, &[PathBuf::from("/nowhere")]).expect_err("there is none");
    assert_eq!(
        missing.to_string(),
        "no server `redis-8`; run `./scripts/brokers` to get it, or name one in TIDINGS_REDIS_8 (sought: /nowhere/redis-8)"
    );
    // A variable that leads nowhere is an error, not a reason to look elsewhere.
    let known = Kind::Redis8.binary();
    let folder = known.path.parent().expect("a file is in a folder").to_owned();
    assert!(Kind::Redis8.find(Some("/nowhere/server".into()), std::slice::from_ref(&folder)).is_err());
    let named = Kind::Redis8.find(Some(known.path.clone().into()), &[]).expect("it is there");
    assert_eq!(named.origin, "named by TIDINGS_REDIS_8");
}

#[tokio::test]
async fn a_server_dies_with_the_test_process() {
    // Where the victim leaves its server's folder behind.
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let mut victim = Command::new(env!("CARGO_BIN_EXE_victim"))
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let pid = within("the victim starts its server", lines.next_line()).await.expect("text").expect("a process id");
    let stat = format!("/proc/{pid}/stat");
    assert!(Path::new(&stat).exists());
    victim.kill().await.expect("it runs");
    eventually("the server is gone", || async {
        match fs::read_to_string(&stat) {
            // Where nobody reaps orphans, a dead one stays in the table.
            Ok(line) if !line.contains(") Z ") => Err(line),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_proxy_counts_and_records_what_passes() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    proxy.record(true);
    ping(&mut client).await;
    client.write_all(b"*3\r\n$7\r\npublish\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$4\r\nPI").await.expect("open");
    assert_eq!(receive(&mut client, 4).await, b":0\r\n");
    assert_eq!((proxy.count("PUBLISH"), proxy.count("PING")), (1, 1));
    assert_eq!(proxy.commands()[1], [b"publish".to_vec(), b"a".to_vec(), b"b".to_vec()]);
    let counters = proxy.counters();
    assert_eq!((counters.accepted, counters.open), (1, 1));
    assert_eq!(counters.to_client, 2 * PONG.len() as u64 + 4);
    drop(client);
    proxy.wait("the connection ends on both sides", |counters| counters.open == 0).await;
}

#[tokio::test]
async fn a_proxy_cuts_with_either_end() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    proxy.cut(Cut::Reset).await;
    let reset = within("the end", client.read(&mut [0])).await;
    assert_eq!(reset.expect_err("a reset is an error").kind(), ErrorKind::ConnectionReset);

    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    proxy.cut(Cut::Finish).await;
    assert_eq!(within("the end", client.read(&mut [0])).await.expect("an end of file is none"), 0);
    assert_eq!(proxy.counters().open, 0);
}

#[tokio::test]
async fn a_proxy_cuts_in_the_middle_of_a_frame() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    proxy.cut_after(Direction::ToClient, PONG.len() + 3, Cut::Finish);
    client.write_all(&PING.repeat(2)).await.expect("the connection is open");
    let mut answer = Vec::new();
    within("the end", client.read_to_end(&mut answer)).await.expect("an orderly end");
    assert_eq!(answer, b"+PONG\r\n+PO");
    // Only once.
    ping(&mut connect(proxy.port()).await).await;

    let mut client = connect(proxy.port()).await;
    proxy.record(true);
    proxy.cut_after(Direction::ToServer, PING.len() + 5, Cut::Finish);
    client.write_all(&PING.repeat(2)).await.expect("the kernel takes it");
    within("the end", client.read_to_end(&mut Vec::new())).await.ok();
    assert_eq!(proxy.count("PING"), 1);
}

#[tokio::test]
async fn a_proxy_stalls_either_way() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let before = proxy.counters();
        proxy.stall(direction, true);
        client.write_all(PING).await.expect("the kernel takes it");
        if direction == Direction::ToClient {
            let length = PING.len() as u64;
            proxy.wait("the request passes", |counters| counters.to_server == before.to_server + length).await;
        }
        assert!(is_silent(&client).await);
        assert_eq!(proxy.counters().to_client, before.to_client);
        proxy.stall(direction, false);
        assert_eq!(receive(&mut client, PONG.len()).await, PONG);
    }
    // A stalled connection can be cut.
    proxy.stall(Direction::ToServer, true);
    client.write_all(PING).await.expect("the kernel takes it");
    proxy.cut(Cut::Reset).await;
}

#[tokio::test]
async fn a_proxy_swallows_replies() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut client = connect(proxy.port()).await;
    ping(&mut client).await;
    proxy.drop_replies(true);
    client.write_all(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n").await.expect("the connection is open");
    proxy.wait("the reply is swallowed", |counters| counters.dropped == 4).await;
    assert_eq!(server.command(&["GET", "a"]).await.text(), "1");
    proxy.cut(Cut::Reset).await;
    proxy.drop_replies(false);
    ping(&mut connect(proxy.port()).await).await;
}

#[tokio::test]
async fn a_proxy_refuses_new_connections() {
    let server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let mut old = connect(proxy.port()).await;
    ping(&mut old).await;

    proxy.refuse(Refusal::AcceptAndReset).await;
    let mut client = connect(proxy.port()).await;
    assert!(matches!(within("the end", client.read(&mut [0])).await, Ok(0) | Err(_)));
    ping(&mut old).await;

    proxy.refuse(Refusal::StopListening).await;
    let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await;
    assert_eq!(refused.expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
    ping(&mut old).await;

    proxy.refuse(Refusal::Off).await;
    ping(&mut connect(proxy.port()).await).await;
}

#[tokio::test]
async fn a_proxy_outlives_its_server() {
    let mut server = plain(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    ping(&mut connect(proxy.port()).await).await;
    server.kill();
    let mut client = connect(proxy.port()).await;
    assert!(matches!(within("the end", client.read(&mut [0])).await, Ok(0) | Err(_)));
    server.restart().await;
    ping(&mut connect(proxy.port()).await).await;
}
