//! Appending to and consuming a stream on a Redis server of the bench's own.
//!
//! The twin is the `redis` crate. It writes the same records, which is checked before the rounds, and reads them through
//! a group as the library does. Both sides encode and decode the same struct.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo as _, Value};
use tidings::backend::Redis;
use tidings::{AckGroup, Broker, Config, Namespace, Start, Stream, StreamSettings};
use tidings_tests::harness::{Kind, RedisOptions, Server};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measure::{ROUND, ROUNDS, Way, print, print_each, take_turns, take_turns_of};
use crate::text::{BATCH, CONSUMER, FIRST, Seen, Text, consumer, handle, ready, worker};

/// Where the one partition of the stream below stands under the bench's namespace.
const LOG: &str = "{bench.redis.stream.bench.texts.v1.p0}:log";
const GROUP: &str = "bench";
const CONSUMED: u32 = 100_000;

/// The server and the ways to it. Everything is opened once, before the rounds.
struct Bench {
    runtime: Runtime,
    server: Server,
    stream: Stream<Text, Redis>,
    group: AckGroup<Text, Redis>,
    delayed: MultiplexedConnection,
    undelayed: MultiplexedConnection,
}

/// Runs on a server that has this setting, and no snapshots.
pub(crate) fn run(setting: &str) -> Result<(), String> {
    let bench = Bench::start(Runtime::new().map_err(shown)?, setting)?;
    println!("\n{setting}");
    for bytes in [128, 1_024] {
        bench.compare_records(bytes)?;
        // Tasks at once, entries of a round, and the ratio of rates that is aimed at.
        for (tasks, entries, least) in [(1, 4_000, 1.0), (16, 40_000, 1.0), (256, 61_440, 1.3), (4_096, 81_920, 1.7)] {
            bench.append(bytes, tasks, entries, least)?;
        }
        bench.append_all(bytes)?;
        bench.consume(bytes)?;
    }
    Ok(())
}

/// Appends so many entries of 128 B by one side, on one thread.
pub(crate) fn count(side: &str, tasks: u32, entries: u32) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(shown)?;
    let bench = Bench::start(runtime, "appendonly no")?;
    let text = Text::new(128);
    bench.in_time(async {
        match side {
            "tidings" => appends(&bench.stream, &text, tasks, entries).await?,
            "redis" => raw_appends(&bench.undelayed, &text, tasks, entries).await?,
            _ => return Err(format!("`{side}` is neither `tidings` nor `redis`")),
        };
        let length: u32 = redis::cmd("XLEN").arg(LOG).query_async(&mut bench.undelayed.clone()).await.map_err(shown)?;
        if length == entries { Ok(()) } else { Err(format!("{length} entries of {entries}")) }
    })
}

impl Bench {
    fn start(runtime: Runtime, setting: &str) -> Result<Self, String> {
        let server = runtime.block_on(Server::start(Kind::Redis8, RedisOptions::default().config(setting)));
        let namespace = Namespace::new("bench", "redis").map_err(shown)?;
        let broker = Broker::new(Redis::new(server.url()).map_err(shown)?, Config::new(namespace)).map_err(shown)?;
        let stream = Text::stream(&broker).map_err(shown)?;
        let group = stream.ack_group(GROUP).map_err(shown)?;
        runtime.block_on(async { stream.ensure(StreamSettings::new()).await }).map_err(shown)?;
        let connect = |nodelay| runtime.block_on(connection(&server.url(), nodelay));
        let (delayed, undelayed) = (connect(false)?, connect(true)?);
        Ok(Self { runtime, server, stream, group, delayed, undelayed })
    }

    fn in_time<R>(&self, work: impl Future<Output = Result<R, String>>) -> Result<R, String> {
        self.runtime
            .block_on(async { timeout(ROUND, work).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
    }

    /// Fails unless the library's records and the twin's are the same, but for the values of id and time.
    fn compare_records(&self, bytes: usize) -> Result<(), String> {
        let text = Text::new(bytes);
        let entries = self.in_time(async {
            empty(&self.undelayed).await?;
            self.stream.append(&(), &text).await.map_err(shown)?;
            let _: String = xadd(&text).query_async(&mut self.undelayed.clone()).await.map_err(shown)?;
            let mut range = redis::cmd("XRANGE");
            range.arg(LOG).arg("-").arg("+");
            range.query_async::<Vec<(String, Vec<(String, String)>)>>(&mut self.undelayed.clone()).await.map_err(shown)
        })?;
        let [(_, ours), (_, twin)] = &entries[..] else { return Err(format!("{} entries of two", entries.len())) };
        let shape = |text: &str| text.replace(|letter: char| letter.is_ascii_hexdigit(), "0");
        let alike = |((name, value), (other_name, other_value)): (&(String, String), &(String, String))| {
            let varies = matches!(&**name, "ce_id" | "ce_time");
            name == other_name && if varies { shape(value) == shape(other_value) } else { value == other_value }
        };
        if ours.len() == twin.len() && ours.iter().zip(twin).all(alike) {
            return Ok(());
        }
        Err(format!("the records differ: {ours:?} and {twin:?}"))
    }

    fn append(&self, bytes: usize, tasks: u32, entries: u32, least: f64) -> Result<(), String> {
        let text = Text::new(bytes);
        let raw = |connection: &MultiplexedConnection| self.in_time(raw_appends(connection, &text, tasks, entries));
        // Few at once wait for the scheduler rather than for anything here, so that single rounds say little.
        let rounds = if tasks > 16 { ROUNDS } else { 4 * ROUNDS + 1 };
        let rows = take_turns_of(
            rounds,
            entries,
            Some(self.server.pid()),
            vec![
                self.appending("tidings", entries, || self.in_time(appends(&self.stream, &text, tasks, entries))),
                self.appending("redis, one connection", entries, || raw(&self.delayed)),
                self.appending("redis, one connection, TCP_NODELAY", entries, || raw(&self.undelayed)),
            ],
        )?;
        print(&format!("redis, append, {bytes} B, {tasks} at once"), &rows, least);
        Ok(())
    }

    fn append_all(&self, bytes: usize) -> Result<(), String> {
        const BATCHES: u32 = 200;
        let text = Text::new(bytes);
        let raw = |connection: &MultiplexedConnection| self.in_time(raw_pipelines(connection, &text, BATCHES));
        let entries = BATCH * BATCHES;
        let rows = take_turns(
            entries,
            Some(self.server.pid()),
            vec![
                self.appending("tidings", entries, || self.in_time(batches(&self.stream, &text, BATCHES))),
                self.appending("redis, pipeline", entries, || raw(&self.delayed)),
                self.appending("redis, pipeline, TCP_NODELAY", entries, || raw(&self.undelayed)),
            ],
        )?;
        print(&format!("redis, append_all, {bytes} B, {BATCH} in a batch"), &rows, 0.95);
        Ok(())
    }

    /// A way of appending so many entries to a stream that is empty before, each of which is there once behind.
    fn appending<'a>(
        &'a self,
        name: &'static str,
        entries: u32,
        round: impl FnMut() -> Result<Duration, String> + 'a,
    ) -> Way<'a> {
        let before = || self.in_time(empty(&self.undelayed));
        Way::new(name, round).between(before, move || self.in_time(complete(&self.undelayed, entries)))
    }

    fn consume(&self, bytes: usize) -> Result<(), String> {
        self.in_time(async {
            empty(&self.undelayed).await?;
            fill(&self.undelayed, &Text::new(bytes)).await
        })?;
        let group = &self.group;
        let rows = take_turns(
            CONSUMED,
            Some(self.server.pid()),
            vec![
                self.consuming("read and ack", move |seen| consumer(group, seen)),
                self.consuming("worker", move |seen| worker(group, seen, |worker| worker)),
                self.consuming("worker, 8 handlers", move |seen| worker(group, seen, |worker| worker.concurrency(8))),
                self.consuming("worker, 8 handlers of batches", move |seen| batch_worker(group, seen)),
                self.consuming("redis, XACK after", |seen| raw_consume(&self.delayed, seen)),
                self.consuming("redis, XACK after, TCP_NODELAY", |seen| raw_consume(&self.undelayed, seen)),
                self.consuming("redis, XACK with the next", |seen| raw_pipelined(&self.delayed, seen)),
                self.consuming("redis, XACK with the next, NODELAY", |seen| raw_pipelined(&self.undelayed, seen)),
            ],
        )?;
        print_each(&format!("redis, consume, {bytes} B"), &rows, &[Some(1.0), Some(1.0), None, None]);
        Ok(())
    }

    /// A way of consuming the whole stream through a group that is new, and has nothing pending behind.
    fn consuming<'a, F>(&'a self, name: &'static str, mut round: impl FnMut(Arc<Seen>) -> F + 'a) -> Way<'a>
    where
        F: Future<Output = Result<(), String>>,
    {
        let before = || {
            self.in_time(async {
                self.group.delete().await.map_err(shown)?;
                self.group.ensure(Start::Earliest).await.map_err(shown).map(drop)
            })
        };
        let measured = move || {
            let seen = Arc::new(Seen::new(CONSUMED));
            let start = Instant::now();
            self.in_time(round(seen.clone()))?;
            let took = start.elapsed();
            seen.is_complete().map(|()| took)
        };
        Way::new(name, measured).between(before, || {
            let depth = self.in_time(async { self.group.depth().await.map_err(shown) })?;
            if depth.pending == 0 && depth.unread == Some(0) { Ok(()) } else { Err(format!("there are still {depth}")) }
        })
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn connection(url: &str, nodelay: bool) -> Result<MultiplexedConnection, String> {
    let info = url.into_connection_info().map_err(shown)?;
    let client = Client::open(info.set_tcp_settings(TcpSettings::default().set_nodelay(nodelay))).map_err(shown)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(shown)
}

/// Removes all entries; the stream stays.
async fn empty(connection: &MultiplexedConnection) -> Result<(), String> {
    let mut trim = redis::cmd("XTRIM");
    trim.arg(LOG).arg("MAXLEN").arg(0);
    trim.exec_async(&mut connection.clone()).await.map_err(shown)
}

/// Fails unless each entry is there once.
async fn complete(connection: &MultiplexedConnection, entries: u32) -> Result<(), String> {
    const PAGE: usize = 4_096;
    let mut connection = connection.clone();
    let seen = Seen::new(entries);
    let mut from = "-".to_owned();
    loop {
        let mut range = redis::cmd("XRANGE");
        range.arg(LOG).arg(&from).arg("+").arg("COUNT").arg(PAGE);
        let reply: Value = range.query_async(&mut connection).await.map_err(shown)?;
        let ids = take_entries(reply, &seen)?;
        let Some(last) = ids.last() else { return seen.is_complete() };
        from = format!("({}", String::from_utf8_lossy(last));
    }
}

/// Waits for all tasks, each of which has appended its share.
async fn all_done(mut running: JoinSet<Result<(), String>>, start: Instant) -> Result<Duration, String> {
    while let Some(done) = running.join_next().await {
        done.map_err(shown)??;
    }
    Ok(start.elapsed())
}

/// The numbers of a task's entries.
fn share(task: u32, tasks: u32, entries: u32) -> std::ops::Range<u32> {
    let each = entries / tasks;
    FIRST + task * each..FIRST + (task + 1) * each
}

async fn appends(stream: &Stream<Text, Redis>, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (stream, mut text) = (stream.clone(), text.clone());
        running.spawn(async move {
            for number in share(task, tasks, entries) {
                text.number = number;
                stream.append(&(), &text).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

async fn raw_appends(
    connection: &MultiplexedConnection,
    text: &Text,
    tasks: u32,
    entries: u32,
) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (mut connection, mut text) = (connection.clone(), text.clone());
        running.spawn(async move {
            for number in share(task, tasks, entries) {
                text.number = number;
                let _: String = xadd(&text).query_async(&mut connection).await.map_err(shown)?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

/// The command that makes the record that the library makes.
fn xadd(text: &Text) -> Cmd {
    let mut add = redis::cmd("XADD");
    add.arg(LOG).arg("NOMKSTREAM").arg("*");
    add_fields(&mut add, text);
    add
}

fn add_fields(add: &mut Cmd, text: &Text) {
    static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    add.arg("ce_specversion").arg("1.0").arg("ce_source").arg("/bench/redis").arg("ce_type").arg("bench.texts.v1");
    add.arg("content-type").arg("application/json");
    let now = SystemTime::now();
    let millis = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let millis = u64::try_from(millis).unwrap_or_default();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&next_random().to_ne_bytes());
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    add.arg("ce_id").arg(id.as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).as_bytes());
    let time = Timestamp::from_millisecond(millis.cast_signed()).expect("it is the twenty-first century");
    add.arg("ce_time").arg(PRINTER.timestamp_to_string(&time));
    add.arg("data").arg(text.json());
}

/// A number that looks random, by Marsaglia's xorshift; the twin shouldn't wait for the system's.
fn next_random() -> u64 {
    thread_local! { static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) } }
    STATE.with(|state| {
        let mut number = state.get();
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        state.set(number);
        number
    })
}

async fn batches(stream: &Stream<Text, Redis>, text: &Text, batches: u32) -> Result<Duration, String> {
    let mut texts = vec![text.clone(); BATCH as usize];
    let start = Instant::now();
    for batch in 0..batches {
        renumber(&mut texts, batch);
        for outcome in stream.append_all(texts.iter().map(|text| (&(), text))).await.map_err(shown)? {
            outcome.map_err(shown)?;
        }
    }
    Ok(start.elapsed())
}

async fn raw_pipelines(connection: &MultiplexedConnection, text: &Text, batches: u32) -> Result<Duration, String> {
    let mut connection = connection.clone();
    let mut texts = vec![text.clone(); BATCH as usize];
    let start = Instant::now();
    for batch in 0..batches {
        renumber(&mut texts, batch);
        pipeline(&mut connection, &texts).await?;
    }
    Ok(start.elapsed())
}

fn renumber(texts: &mut [Text], batch: u32) {
    for (text, number) in texts.iter_mut().zip(FIRST + batch * BATCH..) {
        text.number = number;
    }
}

async fn pipeline(connection: &mut MultiplexedConnection, texts: &[Text]) -> Result<Vec<String>, String> {
    let mut pipeline = redis::pipe();
    for text in texts {
        pipeline.add_command(xadd(text));
    }
    pipeline.query_async(connection).await.map_err(shown)
}

/// Appends what the rounds consume.
async fn fill(connection: &MultiplexedConnection, text: &Text) -> Result<(), String> {
    let mut connection = connection.clone();
    let mut texts = vec![text.clone(); BATCH as usize];
    for batch in 0..CONSUMED.div_ceil(BATCH) {
        renumber(&mut texts, batch);
        let left = CONSUMED - batch * BATCH;
        pipeline(&mut connection, &texts[..left.min(BATCH) as usize]).await?;
    }
    Ok(())
}

async fn batch_worker(group: &AckGroup<Text, Redis>, seen: Arc<Seen>) -> Result<(), String> {
    let worker = ready(group, seen).concurrency(8);
    let handler = async |deliveries: Vec<_>, handled| {
        for delivery in &deliveries {
            handle(delivery, &handled)?;
        }
        Ok(())
    };
    worker.run_batches(BATCH as usize, handler).await.map_err(shown).map(drop)
}

fn xreadgroup() -> Cmd {
    let mut read = redis::cmd("XREADGROUP");
    read.arg("GROUP").arg(GROUP).arg(CONSUMER).arg("COUNT").arg(BATCH).arg("BLOCK").arg(10_000);
    read.arg("STREAMS").arg(LOG).arg(">");
    read
}

fn xack(ids: &[Vec<u8>]) -> Cmd {
    let mut ack = redis::cmd("XACK");
    ack.arg(LOG).arg(GROUP).arg(ids);
    ack
}

async fn raw_consume(connection: &MultiplexedConnection, seen: Arc<Seen>) -> Result<(), String> {
    let mut connection = connection.clone();
    while seen.count() < seen.all() {
        let reply = xreadgroup().query_async(&mut connection).await.map_err(shown)?;
        let ids = take_read(reply, &seen)?;
        let _: u64 = xack(&ids).query_async(&mut connection).await.map_err(shown)?;
    }
    Ok(())
}

async fn raw_pipelined(connection: &MultiplexedConnection, seen: Arc<Seen>) -> Result<(), String> {
    let mut connection = connection.clone();
    let reply = xreadgroup().query_async(&mut connection).await.map_err(shown)?;
    let mut ids = take_read(reply, &seen)?;
    while seen.count() < seen.all() {
        let mut both = redis::pipe();
        both.add_command(xack(&ids)).ignore().add_command(xreadgroup());
        let [reply]: [Value; 1] = both.query_async(&mut connection).await.map_err(shown)?;
        ids = take_read(reply, &seen)?;
    }
    xack(&ids).exec_async(&mut connection).await.map_err(shown)
}

/// Decodes what a read of the one stream found, and returns the entries' ids.
fn take_read(reply: Value, seen: &Seen) -> Result<Vec<Vec<u8>>, String> {
    let Value::Array(streams) = reply else { return Err("a read found nothing".to_owned()) };
    let Some(Value::Array(stream)) = streams.into_iter().next() else { return Err("a read without a stream".into()) };
    take_entries(stream.into_iter().nth(1).unwrap_or(Value::Nil), seen)
}

fn take_entries(entries: Value, seen: &Seen) -> Result<Vec<Vec<u8>>, String> {
    let Value::Array(entries) = entries else { return Err("no list of entries".to_owned()) };
    let mut ids = Vec::with_capacity(entries.len());
    for entry in entries {
        let Value::Array(parts) = entry else { return Err("no entry".to_owned()) };
        let Ok([Value::BulkString(id), Value::Array(fields)]) = <[Value; 2]>::try_from(parts) else {
            return Err("an entry without fields".to_owned());
        };
        let is_data = |pair: &&[Value]| matches!(&pair[0], Value::BulkString(name) if name == b"data");
        let Some([_, Value::BulkString(data)]) = fields.chunks_exact(2).find(is_data) else {
            return Err("an entry without data".to_owned());
        };
        seen.mark(&serde_json::from_slice(data).map_err(shown)?)?;
        ids.push(id);
    }
    Ok(ids)
}
