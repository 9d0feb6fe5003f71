use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io};

use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::binary::{Binary, Kind};
use super::deadline::{eventually, within};
use super::ports::free_ports;
use super::process::Process;
use super::resp::{self, Value};
use super::tls::Tls;

/// The user by which the harness commands a server that has access rules of its own.
const HARNESS_USER: &str = "harness";

/// What differs from a plain server. A plain one writes an append-only file, so a killed one keeps its data.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// More lines of the configuration file, such as `maxmemory 10mb`.
    pub config: Vec<String>,
    /// Whether the port speaks TLS, with certificates from [`Server::tls`]. A client's own certificate is optional.
    pub tls: bool,
    /// Lines of the access list, such as `user default off`; empty means that anyone may do anything.
    pub acl: Vec<String>,
    /// The port; by default a free one. There is no retry with another when this one is taken.
    pub port: Option<u16>,
    /// Whether the server is a cluster node, with a bus port of its own. See [`Cluster`](super::Cluster) for a whole one.
    pub cluster: bool,
}

impl RedisOptions {
    /// Adds a line to the configuration file.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Makes the port speak TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Adds a line to the access list.
    #[must_use]
    pub fn acl(mut self, line: impl Into<String>) -> Self {
        self.acl.push(line.into());
        self
    }

    /// Asks the default user for a password.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.acl(format!("user default on >{password} ~* &* +@all"))
    }
}

/// A server of its own on 127.0.0.1, with a folder of its own. Dropping it kills it and removes the folder.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    binary: Binary,
    options: RedisOptions,
    port: u16,
    bus_port: Option<u16>,
    tls: Option<Tls>,
    // Before the folder, so that the process is gone when the folder goes.
    process: Option<Process>,
    folder: TempDir,
}

/// Why a server didn't come up.
enum Failure {
    PortTaken(String),
    Other(String),
}

impl Server {
    /// Starts a server and returns when it answers. Panics with its last words when it doesn't come up.
    pub async fn start(kind: Kind, options: RedisOptions) -> Self {
        /// Other processes take ports too, in the moment between finding one and binding it.
        const ATTEMPTS: usize = 10;

        let binary = kind.binary();
        let folder = TempDir::with_prefix("tidings-").expect("the folder for temporary files is writable");
        let tls = options.tls.then(|| Tls::generate(folder.path()));
        let mut server = Self { kind, binary, options, port: 0, bus_port: None, tls, process: None, folder };
        let mut taken = String::new();
        for _ in 0..ATTEMPTS {
            let ports = free_ports(2);
            server.port = server.options.port.unwrap_or(ports[0]);
            server.bus_port = server.options.cluster.then_some(ports[1]);
            server.configure();
            match server.launch().await {
                Ok(()) => {
                    eprintln!("{}", server.describe());
                    return server;
                }
                Err(Failure::PortTaken(words)) if server.options.port.is_none() => taken = words,
                Err(Failure::PortTaken(words) | Failure::Other(words)) => panic!("{words}"),
            }
        }
        panic!("found no port in {ATTEMPTS} attempts: {taken}");
    }

    /// The kind that it was started as.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The port of 127.0.0.1 for clients; it stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for other nodes of a cluster.
    #[must_use]
    pub fn bus_port(&self) -> Option<u16> {
        self.bus_port
    }

    /// The address for a client that needs no credentials: `redis://127.0.0.1:...`, or `rediss://localhost:...` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with("")
    }

    /// The address for a client that logs in. User and password have to be plain enough for an URL.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with(&format!("{user}:{password}@"))
    }

    fn url_with(&self, credentials: &str) -> String {
        let (scheme, host) = if self.tls.is_some() { ("rediss", "localhost") } else { ("redis", "127.0.0.1") };
        format!("{scheme}://{credentials}{host}:{}", self.port)
    }

    /// The Unix socket. Every server has one, and it never speaks TLS.
    #[must_use]
    pub fn unix_socket(&self) -> PathBuf {
        self.folder.path().join("socket")
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

    /// Starts again on the same port with the same folder; kills first when that wasn't done. Returns when the data is
    /// loaded and the server answers.
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

    /// Sends a command over a connection of its own, past any proxy, TLS and access list. Panics when the server refuses
    /// it or doesn't answer.
    pub async fn command(&self, command: &[&str]) -> Value {
        match within(format!("{command:?} on {}", self.describe()), self.try_command(command)).await {
            Ok(Value::Error(refusal)) => panic!("{command:?} on {}: {refusal}", self.describe()),
            Ok(value) => value,
            Err(error) => panic!("{command:?} on {}: {error}", self.describe()),
        }
    }

    /// Sends a command as [`command`](Self::command) does, and returns a refusal as [`Value::Error`].
    pub async fn try_command(&self, command: &[&str]) -> io::Result<Value> {
        let login: &[&str] = &["AUTH", HARNESS_USER, HARNESS_USER];
        let commands = [login, command];
        let commands = if self.options.acl.is_empty() { &commands[1..] } else { &commands };
        resp::call(&self.unix_socket(), commands).await
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap_or_else(|| panic!("{} was killed; restart it first", self.describe()))
    }

    fn describe(&self) -> String {
        format!("{} on port {} ({})", self.kind, self.port, self.binary)
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join("server.conf")
    }

    fn configure(&self) {
        let folder = self.folder.path().display();
        // `appendfsync no` hands each command to the kernel before its reply, which a kill doesn't undo. The default,
        // `everysec`, puts that off while an fsync runs, and then loses commands that it has answered.
        let mut text = format!(
            "bind 127.0.0.1\ndir {folder}\nunixsocket {socket}\nsave \"\"\nappendonly yes\nappendfsync no\n",
            socket = self.unix_socket().display(),
        );
        let port = self.port;
        let _ = match &self.tls {
            None => writeln!(text, "port {port}"),
            Some(tls) => writeln!(
                text,
                "port 0\ntls-port {port}\ntls-auth-clients optional\n\
                 tls-ca-cert-file {}\ntls-cert-file {}\ntls-key-file {}",
                tls.ca.display(),
                tls.server_certificate.display(),
                tls.server_key.display(),
            ),
        };
        if let Some(bus_port) = self.bus_port {
            // The bus port is named, since the default, port + 10,000, may be anyone's. A primary would wait 5 s for
            // more replicas before it lets the first have its data.
            let _ = writeln!(
                text,
                "cluster-enabled yes\ncluster-port {bus_port}\ncluster-announce-ip 127.0.0.1\n\
                 cluster-node-timeout 2000\nrepl-diskless-sync-delay 0",
            );
        }
        if !self.options.acl.is_empty() {
            let list = self.folder.path().join("users.acl");
            let harness = format!("user {HARNESS_USER} on >{HARNESS_USER} ~* &* +@all");
            self.write(&list, &format!("{}\n{harness}\n", self.options.acl.join("\n")));
            let _ = writeln!(text, "aclfile {}", list.display());
        }
        for line in &self.options.config {
            text.push_str(line);
            text.push('\n');
        }
        self.write(&self.config_file(), &text);
    }

    fn write(&self, path: &Path, text: &str) {
        fs::write(path, text)
            .unwrap_or_else(|error| panic!("{}: can't write `{}`: {error}", self.describe(), path.display()));
    }

    /// Starts the process and waits until it answers.
    async fn launch(&mut self) -> Result<(), Failure> {
        let log = self.folder.path().join("log");
        // The reasons in it are those of this launch.
        let _ = fs::rename(&log, log.with_extension("old"));
        let mut process = Process::start(&self.binary.path, &[self.config_file()], Stdio::null(), log)
            .map_err(|error| Failure::Other(format!("{}: {error}", self.describe())))?;

        let this = &*self;
        let answer = eventually(format!("{} answers PING", self.describe()), || {
            let ended = process.ended();
            async move {
                match ended {
                    Some(status) => Ok(Err(status)),
                    None => this.ping().await.map(Ok),
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
                let taken = words.contains("Address already in use");
                Err(if taken { Failure::PortTaken(message) } else { Failure::Other(message) })
            }
        }
    }

    async fn ping(&self) -> Result<(), String> {
        // An answer may never come from a process that is about to end.
        match timeout(Duration::from_secs(1), self.try_command(&["PING"])).await {
            Ok(Ok(Value::Simple(pong))) if pong == "PONG" => Ok(()),
            Ok(Ok(other)) => Err(other.text()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }
}
