use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::deadline::eventually;

/// A child process that doesn't outlive the value, nor this process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints is appended to `log`.
    pub(super) fn start(
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
        input: Stdio,
        log: PathBuf,
    ) -> io::Result<Self> {
        Self::start_with(program, arguments, &[], input, log)
    }

    /// Starts `program` with these variables added to the environment.
    pub(super) fn start_with(
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
        environment: &[(&str, String)],
        input: Stdio,
        log: PathBuf,
    ) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(&log)?;
        // The kernel kills the child when its parent is gone, even if that is killed; setpriv then becomes the program,
        // so the process id stays the same.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(input)
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = spawn(command).map_err(|error| {
            let remedy = "install util-linux, which has `setpriv`";
            io::Error::new(error.kind(), format!("can't run `setpriv {}`: {error}; {remedy}", program.display()))
        })?;
        Ok(Self { child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status, if the process has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked for its status")
    }

    /// Waits until the process ends by itself.
    pub(super) async fn end(&mut self) -> ExitStatus {
        let pid = self.id();
        eventually(format!("process {pid} ends"), || {
            let ended = self.ended();
            async move { ended.ok_or("it runs") }
        })
        .await
    }

    /// Asks the process to end in good order, and waits until it has.
    pub(super) async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.end().await
    }

    /// Everything that the process printed.
    pub(super) fn words(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines that the process printed.
    pub(super) fn last_words(&self) -> String {
        let log = self.words();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Stops the process where it is; returns when it stands still.
    pub(super) async fn pause(&self) {
        self.signal(Signal::STOP);
        self.wait_for_state(|state| state == 'T').await;
    }

    /// Lets a paused process go on.
    pub(super) async fn resume(&self) {
        self.signal(Signal::CONT);
        self.wait_for_state(|state| state != 'T').await;
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process id is a positive i32");
        kill_process(pid, signal).expect("a child that wasn't reaped takes signals");
    }

    async fn wait_for_state(&self, wanted: impl Fn(char) -> bool) {
        let stat = format!("/proc/{}/stat", self.id());
        eventually(format!("process {} takes a signal", self.id()), || async {
            let line = fs::read_to_string(&stat).map_err(|error| error.to_string())?;
            // The name stands in parentheses and may hold anything; the state follows.
            let state = line.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            state.filter(|state| wanted(*state)).ok_or_else(|| format!("state {state:?}"))
        })
        .await;
    }
}

/// A program in a process of its own. Dropping it kills it, as `kill -9` does.
#[derive(Debug)]
pub struct Program(Process);

impl Program {
    /// Starts the program at `path`; what it prints is appended to `log`. Panics when it can't be started.
    #[must_use]
    pub fn start(path: &Path, arguments: &[impl AsRef<OsStr>], input: Stdio, log: PathBuf) -> Self {
        Self(Process::start(path, arguments, input, log).unwrap_or_else(|error| panic!("{error}")))
    }

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends the program's standard input, where that is a pipe.
    pub fn close_input(&mut self) {
        self.0.child.stdin = None;
    }

    /// The status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.ended()
    }

    /// The last lines that it printed.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.0.last_words()
    }

    /// Stops the process where it is; returns when it stands still.
    pub async fn pause(&self) {
        self.0.pause().await;
    }

    /// Lets a paused process go on.
    pub async fn resume(&self) {
        self.0.resume().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spawns on a thread that lives as long as this process: the kernel counts as a child's parent the thread that spawned
/// it, and a test's thread, or a worker of its runtime, ends before other tests that may share the child.
fn spawn(command: Command) -> io::Result<Child> {
    type Request = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();

    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = mpsc::channel::<Request>();
        thread::Builder::new()
            .name("harness-spawner".into())
            .spawn(move || {
                for (mut command, reply) in inbox {
                    // The test that asked may have given up.
                    let _ = reply.send(command.spawn());
                }
            })
            .expect("a thread can be started");
        requests
    });
    let (reply, answer) = mpsc::channel();
    spawner.send((command, reply)).expect("the spawner never ends");
    answer.recv().expect("the spawner answers")
}
