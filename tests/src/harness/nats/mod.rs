//! NATS servers with JetStream.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::binary::{Binary, NatsKind};
use super::deadline::{eventually, within};
use super::ports::free_ports;
use super::process::Process;
use super::tls::Tls;

mod cluster;

pub use cluster::NatsCluster;

/// Other processes take ports too, in the moment between finding one and binding it.
const ATTEMPTS: usize = 10;

/// What differs from a plain server. A plain one has JetStream, takes anyone and speaks no TLS.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// More lines of the configuration file, such as `max_payload: 1024`, or a block `authorization { .. }`.
    pub config: Vec<String>,
    /// Whether and how clients speak TLS, with certificates from [`Nats::tls`].
    pub tls: NatsTls,
    /// Whether the server is without JetStream.
    pub core_only: bool,
}

/// How clients speak TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatsTls {
    /// They don't.
    #[default]
    Off,
    /// Once the server has said that it wants it.
    On,
    /// The same, and a client has to show a certificate of the same authority.
    Verified,
    /// Before anything else.
    First,
}

impl NatsOptions {
    /// Adds a line to the configuration file.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Makes clients speak TLS.
    #[must_use]
    pub fn tls(mut self, tls: NatsTls) -> Self {
        self.tls = tls;
        self
    }

    /// Leaves JetStream out.
    #[must_use]
    pub fn core_only(mut self) -> Self {
        self.core_only = true;
        self
    }
}

/// A server of its own on 127.0.0.1, with a folder of its own. Dropping it kills it and removes the folder.
///
/// What JetStream has acknowledged, it has handed to the kernel, so a kill loses none of it.
#[derive(Debug)]
pub struct Nats {
    kind: NatsKind,
    binary: Binary,
    options: NatsOptions,
    ports: Ports,
    /// The name of a node of a cluster, and the ports by which the nodes know each other.
    member: Option<(String, Vec<u16>)>,
    tls: Option<Tls>,
    // Before the folder, so that the process is gone when the folder goes.
    process: Option<Process>,
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    monitor: u16,
    cluster: u16,
}

/// Why a server didn't come up.
enum Failure {
    PortTaken(String),
    Other(String),
}

impl Nats {
    /// Starts a server and returns when it answers. Panics with its last words when it doesn't come up.
    pub async fn start(kind: NatsKind, options: NatsOptions) -> Self {
        let mut taken = String::new();
        for _ in 0..ATTEMPTS {
            let mut server = Self::prepare(kind, options.clone());
            match server.launch().await {
                Ok(()) => {
                    eprintln!("{}", server.describe());
                    return server;
                }
                Err(Failure::PortTaken(words)) => taken = words,
                Err(Failure::Other(words)) => panic!("{words}"),
            }
        }
        panic!("found no ports in {ATTEMPTS} attempts: {taken}");
    }

    fn prepare(kind: NatsKind, options: NatsOptions) -> Self {
        let folder = TempDir::with_prefix("tidings-").expect("the folder for temporary files is writable");
        let tls = (options.tls != NatsTls::Off).then(|| Tls::generate(folder.path()));
        let found = free_ports(3);
        let ports = Ports { client: found[0], monitor: found[1], cluster: found[2] };
        Self { kind, binary: kind.binary(), options, ports, member: None, tls, process: None, folder }
    }

    /// The kind that it was started as.
    #[must_use]
    pub fn kind(&self) -> NatsKind {
        self.kind
    }

    /// The port of 127.0.0.1 for clients; it stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.client
    }

    /// The address for a client that needs no credentials: `nats://127.0.0.1:...`, or `tls://localhost:...` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with("")
    }

    /// The address for a client with credentials before the `@`, such as `user:password` or a token.
    #[must_use]
    pub fn url_as(&self, credentials: &str) -> String {
        self.url_with(&format!("{credentials}@"))
    }

    fn url_with(&self, credentials: &str) -> String {
        let (scheme, host) = if self.tls.is_some() { ("tls", "localhost") } else { ("nats", "127.0.0.1") };
        format!("{scheme}://{credentials}{host}:{}", self.port())
    }

    /// The certificates of a server with TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The folder with configuration, store and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process's id.
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

    /// Ends the process in good order. Returns when it is gone.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate().await;
        }
    }

    /// Has the server say that it is about to end. How long it then takes is the setting `lame_duck_duration`.
    pub fn lame_duck(&self) {
        self.process().signal(Signal::USR2);
    }

    /// Starts again on the same port with the same store; kills first when that wasn't done. Returns when it answers.
    pub async fn restart(&mut self) {
        self.kill();
        let what = format!("{} comes back", self.describe());
        let launched = async {
            // In the moment that nobody listened, somebody may have: that passes, and clients know only this port.
            loop {
                match self.launch().await {
                    Ok(()) => return,
                    Err(Failure::PortTaken(_)) => sleep(Duration::from_millis(50)).await,
                    Err(Failure::Other(words)) => panic!("{words}"),
                }
            }
        };
        within(what, launched).await;
    }

    /// Leaves JetStream out from the next restart on.
    pub fn leave_out_jetstream(&mut self) {
        self.options.core_only = true;
    }

    /// Replaces the additional lines of the configuration, and has the server take them, a moment later.
    pub fn reload(&mut self, config: Vec<String>) {
        self.options.config = config;
        self.configure();
        self.process().signal(Signal::HUP);
    }

    /// What the server says of itself at a path of its monitoring port, such as `/connz?subs=1`.
    pub async fn monitor(&self, path: &str) -> Value {
        let what = format!("{} answers `{path}`", self.describe());
        within(&what, self.try_monitor(path)).await.unwrap_or_else(|error| panic!("not done: {what}: {error}"))
    }

    async fn try_monitor(&self, path: &str) -> io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports.monitor)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(serde_json::from_str(body)?)
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap_or_else(|| panic!("{} was killed; restart it first", self.describe()))
    }

    fn describe(&self) -> String {
        format!("{} on port {} ({})", self.kind, self.port(), self.binary)
    }

    fn configure(&self) {
        let folder = self.folder.path().display();
        let Ports { client, monitor, cluster } = self.ports;
        let mut text = format!("listen: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n");
        if !self.options.core_only {
            let _ = writeln!(text, "jetstream {{ store_dir: \"{folder}\" }}");
        }
        if let Some(tls) = &self.tls {
            let _ = writeln!(
                text,
                "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: {}, handshake_first: {}, timeout: 5 }}",
                tls.server_certificate.display(),
                tls.server_key.display(),
                tls.ca.display(),
                self.options.tls == NatsTls::Verified,
                self.options.tls == NatsTls::First,
            );
        }
        if let Some((name, nodes)) = &self.member {
            let routes: Vec<_> = nodes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
            let _ = writeln!(
                text,
                "server_name: {name}\ncluster {{ name: tidings-{}, listen: 127.0.0.1:{cluster}, routes: [{}] }}",
                nodes[0],
                routes.join(", "),
            );
        }
        for line in &self.options.config {
            text.push_str(line);
            text.push('\n');
        }
        let file = self.folder.path().join("server.conf");
        fs::write(&file, text)
            .unwrap_or_else(|error| panic!("{}: can't write `{}`: {error}", self.describe(), file.display()));
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        self.configure();
        let log = self.folder.path().join("log");
        // The reasons in it are those of this launch.
        let _ = fs::rename(&log, log.with_extension("old"));
        let arguments = ["-c".into(), self.folder.path().join("server.conf")];
        let process = Process::start(&self.binary.path, &arguments, Stdio::null(), log)
            .map_err(|error| Failure::Other(format!("{}: {error}", self.describe())))?;
        self.process = Some(process);
        Ok(())
    }

    /// Starts the process and waits until it answers.
    async fn launch(&mut self) -> Result<(), Failure> {
        self.spawn()?;
        self.wait_until_healthy().await
    }

    async fn wait_until_healthy(&mut self) -> Result<(), Failure> {
        let mut process = self.process.take().expect("it was just spawned");
        let this = &*self;
        let answer = eventually(format!("{} is healthy", self.describe()), || {
            let ended = process.ended();
            async move {
                match ended {
                    Some(status) => Ok(Err(status)),
                    None => this.is_healthy().await.map(Ok),
                }
            }
        })
        .await;
        match answer {
            Ok(()) => {
                self.process = Some(process);
                Ok(())
            }
            Err(status) => {
                let words = process.last_words();
                let message = format!("{} ended with {status}:\n{words}", self.describe());
                let taken = words.contains("address already in use");
                Err(if taken { Failure::PortTaken(message) } else { Failure::Other(message) })
            }
        }
    }

    async fn is_healthy(&self) -> Result<(), String> {
        // An answer may never come from a process that is about to end.
        match timeout(Duration::from_secs(1), self.try_monitor("/healthz")).await {
            Ok(Ok(health)) if health["status"] == "ok" => {}
            Ok(Ok(health)) => return Err(health.to_string()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("no answer".to_owned()),
        }
        // The monitoring port opens before the clients'.
        TcpStream::connect(("127.0.0.1", self.port())).await.map_err(|error| error.to_string())?;
        Ok(())
    }
}
