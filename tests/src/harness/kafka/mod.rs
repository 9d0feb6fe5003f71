//! Apache Kafka in `KRaft` mode: brokers that are their own controllers.

use std::fmt::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs, process};

use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use super::binary::{Binary, KafkaKind};
use super::deadline::{eventually, eventually_in};
use super::ports::free_ports;
use super::process::Process;
use super::proxy::Proxy;
use super::tls::Tls;

mod cluster;
mod rights;
mod wire;

pub use cluster::KafkaCluster;
pub use rights::{KafkaResource, KafkaRight};

/// How long a start may take: some five seconds of a processor, which a busy machine stretches.
const START: Duration = Duration::from_mins(2);
/// Other processes take ports too, in the moment between finding one and binding it.
const ATTEMPTS: usize = 10;
/// A shared server's proxies: as many as there may be tests at a time.
const SHARED_DOORS: usize = 16;
const SHARED_PREFIX: &str = "tidings-kafka-shared-";

/// What every server has: quick starts, joins and commits, and small internal topics. [`KafkaOptions::config`] overrides.
const SETTINGS: &str = "\
auto.create.topics.enable=false
num.partitions=1
num.network.threads=1
num.io.threads=2
num.replica.fetchers=1
background.threads=2
log.cleaner.dedupe.buffer.size=2097152
log.index.size.max.bytes=1048576
metric.reporters=
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
group.consumer.min.session.timeout.ms=500
group.consumer.session.timeout.ms=10000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=200
broker.heartbeat.interval.ms=200
";

/// What differs from a plain server.
#[derive(Clone, Debug, Default)]
pub struct KafkaOptions {
    /// More lines of the configuration file, such as `message.max.bytes=1000`. The last of two lines counts.
    pub config: Vec<String>,
    /// Whether clients speak TLS, with certificates from [`Kafka::tls`]. A client's own certificate is optional.
    pub tls: bool,
    /// Names and passwords of those who may log in, by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty means anyone.
    pub users: Vec<(String, String)>,
    /// How many proxies there may be at a time: see [`Kafka::door`].
    pub doors: usize,
}

impl KafkaOptions {
    /// Adds a line to the configuration file.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Makes clients speak TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Adds someone who may log in. Name and password have to be plain words.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.into(), password.into()));
        self
    }

    /// Makes room for this many proxies at a time.
    #[must_use]
    pub fn doors(mut self, doors: usize) -> Self {
        self.doors = doors;
        self
    }

    /// What librdkafka calls the clients' protocol.
    #[must_use]
    pub fn security_protocol(&self) -> &'static str {
        match (self.tls, self.users.is_empty()) {
            (false, true) => "PLAINTEXT",
            (true, true) => "SSL",
            (false, false) => "SASL_PLAINTEXT",
            (true, false) => "SASL_SSL",
        }
    }
}

/// A broker of its own on 127.0.0.1, with a folder of its own. Dropping it kills it and removes the folder.
///
/// Its log survives a kill: what a broker has acknowledged, it has handed to the kernel.
#[derive(Debug)]
pub struct Kafka {
    kind: KafkaKind,
    binary: Binary,
    options: KafkaOptions,
    /// Its number in its cluster, from 1 on.
    id: usize,
    ports: Ports,
    doors: Arc<Mutex<Vec<Hinge>>>,
    tls: Option<Tls>,
    // Before the folder, so that the process is gone when the folder goes.
    process: Option<Process>,
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    /// For the harness and the other brokers: plain, for anyone, past every proxy.
    inside: u16,
    controller: u16,
}

/// A port that the broker tells its clients, and the one where it waits for what comes through that.
#[derive(Clone, Copy, Debug)]
struct Hinge {
    advertised: u16,
    listening: u16,
}

/// A [`Proxy`] in front of a [`Kafka`], which tells clients that come this way to stay on it. Dropping it ends every
/// connection and lets another test have it.
#[derive(Debug)]
pub struct Door {
    // Before the way back, so that the port is free when another takes it.
    proxy: Proxy,
    _return: Return,
}

#[derive(Debug)]
struct Return {
    hinge: Hinge,
    doors: Arc<Mutex<Vec<Hinge>>>,
}

/// Files of a formatted folder, which are the same for all servers of a kind.
type Format = Vec<(PathBuf, Vec<u8>)>;

/// Why a server didn't come up.
enum Failure {
    PortTaken(String),
    Other(String),
}

impl Kafka {
    /// Starts a server and returns when it answers. Panics with its last words when it doesn't come up.
    pub async fn start(kind: KafkaKind, options: KafkaOptions) -> Self {
        Self::start_in("tidings-", kind, options).await
    }

    /// The server that all tests of this process share, started by the first; topics and groups need names of their own.
    /// It takes no logins, and speaks no TLS. It is killed when the process ends.
    pub async fn shared(kind: KafkaKind) -> &'static Self {
        static SHARED: [OnceCell<Kafka>; KafkaKind::ALL.len()] = [const { OnceCell::const_new() }; _];
        let place = KafkaKind::ALL.iter().position(|each| *each == kind).expect("ALL has every kind");
        SHARED[place]
            .get_or_init(|| async {
                remove_remains();
                let prefix = format!("{SHARED_PREFIX}{}-", process::id());
                Self::start_in(&prefix, kind, KafkaOptions::default().doors(SHARED_DOORS)).await
            })
            .await
    }

    async fn start_in(prefix: &str, kind: KafkaKind, options: KafkaOptions) -> Self {
        let mut taken = String::new();
        for _ in 0..ATTEMPTS {
            let mut server = Self::prepare(prefix, kind, options.clone(), 1);
            server.configure(&[(1, server.ports.controller)]).await;
            server.spawn();
            match server.wait_until_ready(1).await {
                Ok(()) => {
                    server.prepare_groups().await;
                    eprintln!("{}", server.describe());
                    return server;
                }
                Err(Failure::PortTaken(words)) => taken = words,
                Err(Failure::Other(words)) => panic!("{words}"),
            }
        }
        panic!("found no ports in {ATTEMPTS} attempts: {taken}");
    }

    fn prepare(prefix: &str, kind: KafkaKind, options: KafkaOptions, id: usize) -> Self {
        let folder = TempDir::with_prefix(prefix).expect("the folder for temporary files is writable");
        let tls = options.tls.then(|| Tls::generate(folder.path()));
        let found = free_ports(3 + 2 * options.doors);
        let ports = Ports { client: found[0], inside: found[1], controller: found[2] };
        let doors = found[3..].chunks(2).map(|pair| Hinge { advertised: pair[0], listening: pair[1] }).collect();
        let doors = Arc::new(Mutex::new(doors));
        Self { kind, binary: kind.binary(), options, id, ports, doors, tls, process: None, folder }
    }

    /// The kind that it was started as.
    #[must_use]
    pub fn kind(&self) -> KafkaKind {
        self.kind
    }

    /// The port of 127.0.0.1 for clients; it stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.client
    }

    /// The address for clients, past every proxy: `127.0.0.1:...`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// A proxy in front of the clients' port. Waits while all [`doors`](KafkaOptions::doors) are in use.
    pub async fn door(&self) -> Door {
        let hinge = eventually(format!("a door of {} is free", self.describe()), || async {
            lock(&self.doors).pop().ok_or("all are in use; start the server with more `doors`")
        })
        .await;
        let back = Return { hinge, doors: Arc::clone(&self.doors) };
        Door { proxy: Proxy::start_at(hinge.advertised, hinge.listening).await, _return: back }
    }

    /// The certificates of a server with TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The folder with configuration, data and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's process id. Panics when it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Whether the process is there, paused or not.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.ended().is_none())
    }

    /// Stops the process where it is: connections stay open, and nothing is answered. Returns when it stands still.
    pub async fn pause(&self) {
        self.process().pause().await;
    }

    /// Lets a paused process go on.
    pub async fn resume(&self) {
        self.process().resume().await;
    }

    /// Kills the process, as a crash does: nothing is flushed, and the kernel closes the connections.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends the process in good order: a broker of a cluster hands over its partitions first. Returns when it is gone.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate().await;
        }
    }

    /// Starts again on the same ports with the same folder; kills first when that wasn't done. Returns when the server
    /// answers and, in a cluster, the others count on it.
    pub async fn restart(&mut self) {
        self.kill();
        let what = format!("{} comes back", self.describe());
        let launched = async {
            // In the moment that nobody listened, somebody may have: that passes, and clients know only these ports.
            loop {
                self.spawn();
                match self.wait_until_ready(1).await {
                    Ok(()) => return,
                    Err(Failure::PortTaken(_)) => sleep(Duration::from_millis(50)).await,
                    Err(Failure::Other(words)) => panic!("{words}"),
                }
            }
        };
        assert!(timeout(START, launched).await.is_ok(), "not within {START:?}: {what}");
    }

    /// Creates a topic with these settings, past any proxy and login; returns when its partitions have leaders.
    pub async fn create_topic(&self, name: &str, partitions: usize, settings: &[(&str, &str)]) {
        self.create(name, partitions, 1, settings).await;
    }

    async fn create(&self, name: &str, partitions: usize, replicas: i16, settings: &[(&str, &str)]) {
        let count = i32::try_from(partitions).expect("a topic has few partitions");
        wire::create_topic(self.ports.inside, name, count, replicas, settings)
            .await
            .unwrap_or_else(|error| panic!("{} creates no topic `{name}`: {error}", self.describe()));
        eventually(format!("topic `{name}` is there"), || async {
            let metadata = self.metadata(Some(name)).await?;
            let led = metadata.partitions.values().filter(|partition| partition.leader > 0).count();
            (led == partitions).then_some(()).ok_or_else(|| format!("{metadata:?}"))
        })
        .await;
    }

    /// Lets the topic for offsets be created, so that no test's first group waits for it.
    async fn prepare_groups(&self) {
        eventually_in(START, format!("{} coordinates groups", self.describe()), || {
            wire::find_coordinator(self.ports.inside, "harness")
        })
        .await;
    }

    async fn metadata(&self, topic: Option<&str>) -> Result<wire::Metadata, String> {
        // An answer may never come from a process that is about to end.
        match timeout(Duration::from_secs(1), wire::metadata(self.ports.inside, topic)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap_or_else(|| panic!("{} was stopped; restart it first", self.describe()))
    }

    fn describe(&self) -> String {
        format!("{} on port {} ({})", self.kind, self.port(), self.binary)
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join("server.properties")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes the configuration and the first files of the data. `voters` are all controllers: ids and ports.
    async fn configure(&self, voters: &[(usize, u16)]) {
        self.write(&self.config_file(), self.configuration(voters).as_bytes());
        for (path, content) in self.format().await {
            self.write(&self.data().join(path), &content);
        }
        // Ids of 22 letters are as good as random ones within a folder.
        let (id, directory) = (self.id, format!("tidings-directory-{:0>3}A", self.id));
        let properties = format!("version=1\ncluster.id={CLUSTER_ID}\nnode.id={id}\ndirectory.id={directory}\n");
        self.write(&self.data().join("meta.properties"), properties.as_bytes());
    }

    fn configuration(&self, voters: &[(usize, u16)]) -> String {
        let Ports { client, inside, controller } = self.ports;
        let mut listeners = format!("CLIENT://127.0.0.1:{client},INSIDE://127.0.0.1:{inside}");
        let mut advertised = listeners.clone();
        let mut protocols = "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
        let mut more = String::new();
        self.describe_listener("CLIENT", &mut protocols, &mut more);
        for (number, hinge) in lock(&self.doors).iter().enumerate() {
            let name = format!("DOOR{number}");
            let _ = write!(listeners, ",{name}://127.0.0.1:{}", hinge.listening);
            let _ = write!(advertised, ",{name}://127.0.0.1:{}", hinge.advertised);
            self.describe_listener(&name, &mut protocols, &mut more);
        }
        let voters: Vec<_> = voters.iter().map(|(id, port)| format!("{id}@127.0.0.1:{port}")).collect();
        // After a kill, a broker is taken back when the session that it had is over.
        let (replicas, session) = if voters.len() == 1 { (1, 1_500) } else { (3, 3_000) };
        let least = replicas.min(2);
        format!(
            "process.roles=broker,controller\n\
             node.id={id}\n\
             controller.quorum.voters={voters}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=INSIDE\n\
             listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={advertised}\n\
             listener.security.protocol.map={protocols}\n\
             log.dirs={data}\n\
             broker.session.timeout.ms={session}\n\
             replica.lag.time.max.ms=3000\n\
             default.replication.factor={replicas}\n\
             min.insync.replicas={least}\n\
             offsets.topic.replication.factor={replicas}\n\
             transaction.state.log.replication.factor={replicas}\n\
             transaction.state.log.min.isr={least}\n\
             share.coordinator.state.topic.replication.factor={replicas}\n\
             share.coordinator.state.topic.min.isr={least}\n\
             {SETTINGS}{more}{own}\n",
            id = self.id,
            voters = voters.join(","),
            data = self.data().display(),
            own = self.options.config.join("\n"),
        )
    }

    /// Adds what a listener for clients needs.
    fn describe_listener(&self, name: &str, protocols: &mut String, more: &mut String) {
        let _ = write!(protocols, ",{name}:{}", self.options.security_protocol());
        let prefix = format!("listener.name.{}", name.to_lowercase());
        if let Some(tls) = &self.tls {
            let store = self.folder.path().join("server.keystore");
            let both = [&tls.server_key, &tls.server_certificate].map(|path| fs::read(path).expect("it was written"));
            self.write(&store, &both.concat());
            let _ = writeln!(
                more,
                "{prefix}.ssl.keystore.type=PEM\n{prefix}.ssl.keystore.location={}\n\
                 {prefix}.ssl.truststore.type=PEM\n{prefix}.ssl.truststore.location={}\n\
                 {prefix}.ssl.client.auth=requested",
                store.display(),
                tls.ca.display(),
            );
        }
        if !self.options.users.is_empty() {
            let security = "org.apache.kafka.common.security";
            let users = self.options.users.iter().map(|(name, password)| format!(" user_{name}=\"{password}\""));
            let _ = writeln!(
                more,
                "{prefix}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
                 {prefix}.plain.sasl.jaas.config={security}.plain.PlainLoginModule required{};\n\
                 {prefix}.scram-sha-256.sasl.jaas.config={security}.scram.ScramLoginModule required;\n\
                 {prefix}.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule required;",
                users.collect::<String>(),
            );
        }
    }

    /// The first files of the data. Without users they are the same for all servers of a kind, and asked for only once.
    async fn format(&self) -> Format {
        static FORMATS: [OnceCell<Format>; KafkaKind::ALL.len()] = [const { OnceCell::const_new() }; _];
        if !self.options.users.is_empty() {
            return self.format_anew().await;
        }
        let place = KafkaKind::ALL.iter().position(|each| *each == self.kind).expect("ALL has every kind");
        FORMATS[place].get_or_init(|| self.format_anew()).await.clone()
    }

    async fn format_anew(&self) -> Format {
        let mut arguments =
            ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"].map(PathBuf::from).to_vec();
        arguments.push(self.config_file());
        for (name, password) in &self.options.users {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                let user = format!("{mechanism}=[name={name},password={password}]");
                arguments.extend(["--add-scram".into(), user.into()]);
            }
        }
        let mut process = self.run(&arguments, "format.log");
        let status = process.end().await;
        assert!(status.success(), "{} can't be formatted: {}", self.describe(), process.last_words());
        let mut files = Format::new();
        collect_files(&self.data(), Path::new(""), &mut files);
        // Written anew, with the node's own id.
        fs::remove_dir_all(self.data()).expect("the data was just written");
        files.retain(|(path, _)| path != Path::new("meta.properties"));
        files
    }

    fn run(&self, arguments: &[PathBuf], log: &str) -> Process {
        let arguments: Vec<_> = arguments.iter().map(PathBuf::as_path).collect();
        // The libraries that Java unpacks go when the folder goes.
        let options = format!("-Djava.io.tmpdir={}", self.folder.path().display());
        let environment = [("KAFKA_OPTS", options), ("LOG_DIR", self.folder.path().display().to_string())];
        Process::start_with(&self.binary.path, &arguments, &environment, Stdio::null(), self.folder.path().join(log))
            .unwrap_or_else(|error| panic!("{}: {error}", self.describe()))
    }

    fn write(&self, path: &Path, content: &[u8]) {
        let folder = path.parent().expect("every file is in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(path, content))
            .unwrap_or_else(|error| panic!("{}: can't write `{}`: {error}", self.describe(), path.display()));
    }

    /// Starts the process.
    fn spawn(&mut self) {
        let log = self.folder.path().join("log");
        // The reasons in it are those of this launch.
        let _ = fs::rename(&log, log.with_extension("old"));
        self.process = Some(self.run(&["kafka.Kafka".into(), self.config_file()], "log"));
    }

    /// Waits until the server answers and knows itself and others to be in service, as many as `brokers` together.
    async fn wait_until_ready(&mut self, brokers: usize) -> Result<(), Failure> {
        let mut process = self.process.take().expect("the process was started");
        let own = i32::try_from(self.id).expect("there are few brokers");
        let this = &*self;
        let answer = eventually_in(START, format!("{} is in service", self.describe()), || {
            let ended = process.ended();
            async move {
                if let Some(status) = ended {
                    return Ok(Err(status));
                }
                let known = this.metadata(None).await?.brokers;
                let ready = known.contains(&own) && known.len() >= brokers;
                if ready { Ok(Ok(())) } else { Err(format!("it knows the brokers {known:?}")) }
            }
        })
        .await;
        match answer {
            Ok(()) => {
                self.process = Some(process);
                Ok(())
            }
            Err(status) => {
                let message = format!("{} ended with {status}:\n{}", self.describe(), process.last_words());
                let taken = process.words().contains("Address already in use");
                Err(if taken { Failure::PortTaken(message) } else { Failure::Other(message) })
            }
        }
    }
}

impl Deref for Door {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.proxy
    }
}

impl Drop for Return {
    fn drop(&mut self) {
        lock(&self.doors).push(self.hinge);
    }
}

/// Any 22 letters that stand for 16 bytes.
const CLUSTER_ID: &str = "tidings-cluster-00000A";

fn lock(doors: &Mutex<Vec<Hinge>>) -> std::sync::MutexGuard<'_, Vec<Hinge>> {
    // A test that failed elsewhere still gets its own message.
    doors.lock().unwrap_or_else(PoisonError::into_inner)
}

fn collect_files(root: &Path, below: &Path, files: &mut Format) {
    let entries = fs::read_dir(root.join(below)).expect("the folder was just written");
    for entry in entries.map(|entry| entry.expect("the folder can be read")) {
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            collect_files(root, &path, files);
        } else {
            files.push((path, fs::read(entry.path()).expect("the file was just written")));
        }
    }
}

/// Removes the folders of shared servers whose processes have ended: nothing drops what all tests share.
fn remove_remains() {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(SHARED_PREFIX)?.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
