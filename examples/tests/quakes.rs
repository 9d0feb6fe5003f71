//! Runs the example as a person does: by its options, its output and its exit status.

#![allow(clippy::disallowed_methods, reason = "what is tested is a process, so time is real and nothing is async")]

// Its tests run here: an example that is built as a test isn't built as a program.
#[path = "../quakes/difference.rs"]
mod difference;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The example that cargo built beside this test.
fn quakes(options: &[&str]) -> Output {
    // target/{profile}/deps/{this test}
    let this = std::env::current_exe().expect("a test knows its own path");
    let profile = this.parent().and_then(|deps| deps.parent()).expect("a test lies in target/{profile}/deps");
    let example: PathBuf = profile.join("examples").join(format!("quakes{}", std::env::consts::EXE_SUFFIX));
    let run = Command::new(&example).args(options).output();
    run.unwrap_or_else(|failed| panic!("`{}`: {failed}; `cargo build --examples` makes it", example.display()))
}

/// A Redis of its own behind a Unix socket. Dropping it kills it and removes its folder.
struct Redis {
    process: Child,
    folder: PathBuf,
}

impl Redis {
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("quakes-{}-{name}", std::process::id()));
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

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn url(&self) -> String {
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

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the example prints UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the example prints UTF-8")
}

/// The columns of the line that starts with a text.
fn line<'a>(output: &'a str, start: &str) -> Vec<&'a str> {
    let line = output.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no line starts with {start:?} in:\n{output}")).split_whitespace().collect()
}

#[test]
fn everyone_gets_everything_and_the_table_is_right() {
    let output = quakes(&[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.starts_with("Published 1707 events"), "{text}");
    assert_eq!(line(text, "key ")[3..], ["34", "0", "0"]);
    assert_eq!(line(text, "keys ")[3..], ["297", "0", "0"]);
    assert_eq!(line(text, "every ")[2..], ["1707", "0", "0"]);
    assert_eq!(line(text, "us "), ["us", "168", "6.4", "22km", "NNE", "of", "Hualian,", "Taiwan"]);
    assert_eq!(line(text, "se "), ["se", "1", "0.5", "8km", "NE", "of", "Sweetwater,", "Tennessee"]);
    assert!(!text.contains(['\r', '\x1b']), "the live line is for terminals: {text:?}");
}

#[test]
fn a_cut_is_told_to_everyone_and_made_good() {
    let output = quakes(&["--cut", "--backend=memory"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert_eq!(text.lines().filter(|line| line.contains("the connection was lost")).count(), 3, "{text}");
    let everything = line(text, "every ");
    assert_eq!((everything[2], everything[4]), ("1707", "1"));
    let reread: usize = everything[3].parse().expect("the column `re-read` holds numbers");
    // At a pace of 25 in 20 ms and at least 50 ms of backoff, some must have gone by.
    assert!((25..1_000).contains(&reread), "{text}");
}

#[test]
fn a_server_gives_the_same() {
    let server = Redis::start("whole");
    let output = quakes(&["--backend", &server.url()]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.lines().next().is_some_and(|line| line.contains("on redis 8.")), "{text}");
    assert_eq!(line(text, "every ")[2..], ["1707", "0", "0"]);
}

#[test]
fn a_cut_from_a_server_is_told_and_made_good() {
    let server = Redis::start("cut");
    let output = quakes(&["--backend", &server.url(), "--cut"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert_eq!(text.lines().filter(|line| line.contains("the connection was lost")).count(), 3, "{text}");
    assert_eq!(line(text, "every ")[2], "1707");
}

#[test]
fn mistakes_are_told_with_the_right_exit_status() {
    for (options, status, said) in [
        (&["--fast"][..], 2, "unknown option `--fast`"),
        (&["--cut=yes"], 2, "`--cut` takes no value"),
        (&["--feed"], 2, "`--feed` needs a value"),
        (&["quakes"], 2, "unknown option `quakes`"),
        (&["--backend", "carrier-pigeon"], 2, "unknown backend `carrier-pigeon`"),
        (&["--backend", "redis://nobody:secret@"], 2, "the URL has no host"),
        (&["--backend", "unix:/no/such/socket"], 1, "the server is unavailable"),
        (&["--feed", "/no/such/file"], 1, "can't read the feed `/no/such/file`"),
        (&["--feed", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 1, "can't read the feed"),
    ] {
        let output = quakes(options);
        assert_eq!(output.status.code(), Some(status), "{options:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert!(!stderr(&output).contains("secret"));
        assert_eq!(stdout(&output), "");
    }
    let help = quakes(&["--help"]);
    assert!(help.status.success() && stdout(&help).contains("--cut"));
}
