//! What the tests of the examples share: running one, and a server for it.

#![allow(dead_code, reason = "not every test needs all of it")]
#![allow(clippy::disallowed_methods, reason = "what is tested is a process, so time is real and nothing is async")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs an example to its end.
pub(crate) fn run(example: &str, options: &[&str]) -> Output {
    let program = program(example);
    let run = Command::new(&program).args(options).output();
    run.unwrap_or_else(|failed| panic!("`{}`: {failed}; `cargo build --examples` makes it", program.display()))
}

/// The example that cargo built beside this test.
pub(crate) fn program(example: &str) -> PathBuf {
    // target/{profile}/deps/{this test}
    let this = std::env::current_exe().expect("a test knows its own path");
    let profile = this.parent().and_then(|deps| deps.parent()).expect("a test lies in target/{profile}/deps");
    profile.join("examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX))
}

/// A Redis of its own behind a Unix socket. Dropping it kills it and removes its folder.
pub(crate) struct Redis {
    process: Child,
    folder: PathBuf,
}

impl Redis {
    pub(crate) fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("examples-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let process = Command::new(redis_program())
            .args(["--port", "0", "--save", "", "--unixsocket", "socket", "--dir"])
            .arg(&folder)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Self { process, folder };
        let started = Instant::now();
        while !server.socket().exists() {
            assert!(started.elapsed() < Duration::from_secs(10), "the server doesn't listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// A connection past the library.
    pub(crate) fn connect(&self) -> redis::Connection {
        let client = redis::Client::open(self.url().replacen("unix:", "unix://", 1)).expect("it is a URL");
        client.get_connection().expect("the server answers")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// What an example takes as `--backend`.
    pub(crate) fn url(&self) -> String {
        format!("unix:{}", self.socket().display())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What the tests' servers are found by: a variable, the cache folder's, or the cache in cargo's target folder.
fn redis_program() -> PathBuf {
    let given = std::env::var_os("TIDINGS_REDIS_8").map(PathBuf::from);
    let cached = std::env::var_os("TIDINGS_BROKERS").map(|cache| Path::new(&cache).join("redis-8"));
    let this = std::env::current_exe().expect("a test knows its own path");
    let target = this.ancestors().map(|folder| folder.join("brokers/redis-8"));
    let mut sought = given.into_iter().chain(cached).chain(target);
    sought.find(|program| program.exists()).expect("no `redis-8`; `./scripts/brokers` fetches it")
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the example prints UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the example prints UTF-8")
}

/// The columns of the line that starts with a text.
pub(crate) fn line<'a>(output: &'a str, start: &str) -> Vec<&'a str> {
    let line = output.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no line starts with {start:?} in:\n{output}")).split_whitespace().collect()
}
