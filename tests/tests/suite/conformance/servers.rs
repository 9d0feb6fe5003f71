//! Private servers behind a proxy, as subjects of the suite.

use std::marker::PhantomData;

use tidings::backend::{Redis, RedisCluster};
use tidings::conformance::{Counts, Network, Raw, Streams, Subject, Tap, Topics};
use tidings_tests::harness::{Cut, Direction, Kind, Proxy, RedisOptions, Refusal, Server, Value, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A kind of server, as a type.
pub(crate) trait Which: Send + Sync + 'static {
    const KIND: Kind;
}

macro_rules! kinds {
    ($($name:ident)+) => {
        $(
            pub(crate) struct $name;

            impl Which for $name {
                const KIND: Kind = Kind::$name;
            }
        )+
    };
}

kinds!(Redis7 Redis8 Valkey8);

/// A server that the backend reaches over a proxy, and the suite past it.
struct Behind {
    server: Server,
    proxy: Proxy,
}

/// A single server.
pub(crate) struct RedisServer<W> {
    behind: Behind,
    which: PhantomData<fn() -> W>,
}

/// A cluster of one node, which has every slot and is reached over one proxy.
pub(crate) struct ClusterNode {
    behind: Behind,
}

/// A plain connection that is subscribed to one channel.
pub(crate) struct RawTap {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The bytes of a command.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl RawTap {
    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8(self.received.drain(..end).collect()).expect("a reply's line is text");
                self.received.drain(..2);
                return line;
            }
            self.read().await;
        }
    }

    async fn bulk(&mut self) -> Vec<u8> {
        let line = self.line().await;
        let length: usize = line.trim_start_matches('$').parse().unwrap_or_else(|_| panic!("no length: `{line}`"));
        while self.received.len() < length + 2 {
            self.read().await;
        }
        let bulk = self.received.drain(..length).collect();
        self.received.drain(..2);
        bulk
    }

    async fn read(&mut self) {
        let count = self.stream.read_buf(&mut self.received).await.expect("the tap's connection is open");
        assert_ne!(count, 0, "the server closed the tap's connection");
    }
}

impl Tap for RawTap {
    async fn next(&mut self) -> Vec<u8> {
        assert_eq!(self.line().await, "*3");
        self.bulk().await;
        self.bulk().await;
        self.bulk().await
    }
}

impl Behind {
    async fn start(kind: Kind, options: RedisOptions) -> Self {
        let server = Server::start(kind, options).await;
        let proxy = Proxy::start(server.port()).await;
        Self { server, proxy }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.server.port())).await.expect("the server listens")
    }

    async fn refuse(&self, refuse: bool) {
        self.proxy.refuse(if refuse { Refusal::StopListening } else { Refusal::Off }).await;
        if refuse {
            self.proxy.cut(Cut::Reset).await;
        }
    }

    async fn publish(&self, word: &[u8], channel: &str, payload: &[u8]) {
        let mut tap = RawTap { stream: self.connect().await, received: Vec::new() };
        let request = command(&[word, channel.as_bytes(), payload]);
        tap.stream.write_all(&request).await.expect("the connection is open");
        assert!(tap.line().await.starts_with(':'), "a raw publish is answered with a count");
    }

    async fn tap(&self, word: &[u8], channel: &str) -> RawTap {
        let mut tap = RawTap { stream: self.connect().await, received: Vec::new() };
        let request = command(&[b"CLIENT", b"SETNAME", b"tap"]);
        tap.stream.write_all(&request).await.expect("the connection is open");
        assert_eq!(tap.line().await, "+OK");
        tap.stream.write_all(&command(&[word, channel.as_bytes()])).await.expect("the connection is open");
        assert_eq!(tap.line().await, "*3");
        tap.bulk().await;
        tap.bulk().await;
        assert_eq!(tap.line().await, ":1");
        tap
    }

    async fn silence(&self, silent: bool) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.proxy.stall(direction, silent);
        }
        if !silent {
            self.proxy.cut(Cut::Reset).await;
        }
    }

    async fn lose_replies(&self, lose: bool) {
        if !lose {
            self.proxy.cut(Cut::Reset).await;
        }
        self.proxy.drop_replies(lose);
    }

    async fn append(&self, stream: &str, partition: u32, record: Raw) {
        let log = log(stream, partition);
        let mut words: Vec<Vec<u8>> = vec![b"XADD".to_vec(), log.into_bytes(), b"*".to_vec()];
        for (name, value) in record.attributes {
            let field = if name == "datacontenttype" { "content-type".to_owned() } else { format!("ce_{name}") };
            words.extend([field.into_bytes(), value]);
        }
        words.extend([b"data".to_vec(), record.data]);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut connection = RawTap { stream: self.connect().await, received: Vec::new() };
        connection.stream.write_all(&command(&words)).await.expect("the connection is open");
        connection.bulk().await;
    }

    async fn read(&self, stream: &str, partition: u32) -> Vec<Raw> {
        let entries = self.server.command(&["XRANGE", &log(stream, partition), "-", "+"]).await;
        entries.elements().iter().map(|entry| raw(entry.elements()[1].elements())).collect()
    }

    async fn subscribed_connections(&self) -> usize {
        let clients = self.server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.text();
        clients.lines().filter(|client| !client.is_empty() && !client.contains(" name=tap ")).count()
    }
}

/// The key of a partition's records.
fn log(stream: &str, partition: u32) -> String {
    format!("{{{stream}.p{partition}}}:log")
}

/// The fields of an entry as attributes and payload. A field that is neither comes under its own name.
fn raw(fields: &[Value]) -> Raw {
    let bytes = |value: &Value| match value {
        Value::Bulk(Some(bytes)) => bytes.clone(),
        other => panic!("no field: {other:?}"),
    };
    let mut raw = Raw::default();
    for field in fields.chunks(2) {
        let (name, value) = (field[0].text(), bytes(&field[1]));
        let before = match &*name {
            "data" => {
                raw.data = value;
                continue;
            }
            "content-type" => raw.attributes.insert("datacontenttype".to_owned(), value),
            name => raw.attributes.insert(name.strip_prefix("ce_").unwrap_or(name).to_owned(), value),
        };
        assert_eq!(before, None, "`{name}` is there twice");
    }
    raw
}

macro_rules! behind_a_proxy {
    (@subject) => {
        async fn interrupt(&self) {
            self.behind.proxy.cut(Cut::Reset).await;
        }

        async fn refuse(&self, refuse: bool) {
            self.behind.refuse(refuse).await;
        }
    };
    (@topics $publish:literal, $subscribe:literal) => {
        type Tap = RawTap;

        async fn publish_raw(&self, channel: &str, payload: &[u8]) {
            self.behind.publish($publish, channel, payload).await;
        }

        async fn tap(&self, channel: &str) -> RawTap {
            self.behind.tap($subscribe, channel).await
        }
    };
    (@streams) => {
        const TRIMS_FOR_SURE: bool = false;

        async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
            self.behind.append(stream, partition, record).await;
        }

        async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
            self.behind.read(stream, partition).await
        }
    };
    ([$($parameter:tt)*] $name:ty) => {
        impl<$($parameter)*> Network for $name {
            async fn silence(&self, silent: bool) {
                self.behind.silence(silent).await;
            }

            async fn lose_replies(&self, lose: bool) {
                self.behind.lose_replies(lose).await;
            }

            async fn subscribed_connections(&self) -> usize {
                self.behind.subscribed_connections().await
            }
        }
    };
}

impl<W: Which> Subject for RedisServer<W> {
    type Backend = Redis;

    behind_a_proxy!(@subject);

    async fn start() -> Self {
        Self { behind: Behind::start(W::KIND, RedisOptions::default()).await, which: PhantomData }
    }

    fn backend(&self) -> Redis {
        Redis::new(self.behind.proxy.url()).expect("the proxy's URL is good")
    }
}

impl<W: Which> Topics for RedisServer<W> {
    const COUNTS: Counts = Counts::Deliveries;

    behind_a_proxy!(@topics b"PUBLISH", b"SUBSCRIBE");
}

impl<W: Which> Streams for RedisServer<W> {
    behind_a_proxy!(@streams);
}

impl Subject for ClusterNode {
    type Backend = RedisCluster;

    behind_a_proxy!(@subject);

    async fn start() -> Self {
        let behind = Behind::start(Kind::Redis8, RedisOptions { cluster: true, ..RedisOptions::default() }).await;
        let server = &behind.server;
        server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        // Clients follow the port that the node names: the proxy's.
        let port = behind.proxy.port().to_string();
        server.command(&["CONFIG", "SET", "cluster-announce-port", &port]).await;
        eventually("the cluster is complete", || async {
            let info = server.command(&["CLUSTER", "INFO"]).await.text();
            if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
        })
        .await;
        Self { behind }
    }

    fn backend(&self) -> RedisCluster {
        RedisCluster::new([self.behind.proxy.url()]).expect("the proxy's URL is good")
    }
}

impl Topics for ClusterNode {
    const COUNTS: Counts = Counts::Nothing;

    behind_a_proxy!(@topics b"SPUBLISH", b"SSUBSCRIBE");
}

impl Streams for ClusterNode {
    behind_a_proxy!(@streams);
}

behind_a_proxy!([W: Which] RedisServer<W>);
behind_a_proxy!([] ClusterNode);
