//! Runs the example as a person does: by its options, its output and its exit status.

#![allow(clippy::disallowed_methods, reason = "what is tested is a process, so time is real and nothing is async")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Redis, line, stderr, stdout};

const FEED: &str = include_str!("../data/usgs-all-week.geojson");

fn ledger(options: &[&str]) -> Output {
    support::run("ledger", options)
}

/// The lines of the table that the file gives, added up in decimal.
fn table() -> Vec<String> {
    let mut sums: BTreeMap<String, (u64, u64, i64)> = BTreeMap::new();
    let feed: Value = serde_json::from_str(FEED).expect("the feed is JSON");
    for feature in feed["features"].as_array().expect("a feed has features") {
        let properties = &feature["properties"];
        let network = properties["net"].as_str().expect("an event has a network");
        // The tilde comes behind every network.
        for line in [network, "~all"] {
            let (events, unknown, hundredths) = sums.entry(line.to_owned()).or_default();
            *events += 1;
            match &properties["mag"] {
                Value::Null => *unknown += 1,
                magnitude => *hundredths += decimal(&magnitude.to_string()),
            }
        }
    }
    let lines = sums.iter().map(|(network, (events, unknown, hundredths))| {
        let network = network.trim_start_matches('~');
        format!("{network} {events} {unknown} {}.{:02}", hundredths / 100, hundredths % 100)
    });
    lines.collect()
}

/// Hundredths of a decimal number of at most two places.
fn decimal(text: &str) -> i64 {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    assert!(places.len() <= 2, "{text}");
    format!("{whole}{places:0<2}").parse().expect("a magnitude is a decimal number")
}

/// Says that the run was good, and what it printed.
fn good(output: &Output) -> &str {
    let text = stdout(output);
    assert!(output.status.success(), "{text}{}", stderr(output));
    assert_eq!(stderr(output), "");
    let printed = text.lines().skip_while(|line| !line.starts_with("network ")).skip(1);
    let printed: Vec<_> = printed.take_while(|line| !line.is_empty()).map(words).collect();
    assert_eq!(printed, table(), "{text}");
    assert!(text.contains("Appended 427 of them again: 427 were told as duplicates"), "{text}");
    text
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The numbers of a worker's line: booked, redelivered, booked already.
fn share(text: &str, worker: &str) -> [usize; 3] {
    let words = line(text, worker);
    [1, 2, 3].map(|column| words[column].parse().expect("the columns hold numbers"))
}

/// What a kill must show: what was left is claimed, and what was booked isn't booked again.
fn claimed_by_the_others(text: &str) {
    let shares = ["ledger-1", "ledger-2", "ledger-3"].map(|worker| share(text, worker));
    assert_eq!(shares.iter().map(|[booked, ..]| booked).sum::<usize>(), 1707, "{text}");
    let [first, second, killed] = shares;
    // A twelfth, and what its other handlers had under way.
    assert!((143..150).contains(&killed[0]), "{text}");
    assert!(first[2] + second[2] > 0, "the last that the killed worker booked came again: {text}");
    // An acknowledgement that was on its way at the kill may still have arrived, so a little less than all is claimed.
    let told = line(text, "`ledger-3` left");
    let [left, claimed]: [usize; 2] = [2, 8].map(|word| told[word].parse().expect("it tells numbers"));
    assert!((1..=left).contains(&claimed), "{text}");
}

#[test]
fn the_total_is_exact_though_a_worker_is_killed() {
    let output = ledger(&[]);
    let text = good(&output);
    assert!(text.starts_with("Appended 1707 events to 4 partitions on tidings memory"), "{text}");
    claimed_by_the_others(text);
    // Twelve networks and all.
    assert_eq!(table().len(), 13);
}

#[test]
fn a_server_gives_the_same_and_keeps_nothing() {
    let server = Redis::start("ledger");
    let url = server.url();
    // Two at once, so that they would meet if they could.
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| ledger(&["--backend", &url]));
        (ledger(&["--backend", &url]), first.join().expect("the thread runs an example"))
    });
    for output in [first, second] {
        let text = good(&output);
        assert!(text.lines().next().is_some_and(|line| line.contains("on redis 8.")), "{text}");
        claimed_by_the_others(text);
    }
    assert_eq!(redis::cmd("DBSIZE").query(&mut server.connect()), Ok(0));
}

#[test]
fn what_an_earlier_run_left_behind_changes_nothing() {
    let server = Redis::start("ledger-again");
    let (url, mut connection) = (server.url(), server.connect());
    let mut size = || redis::cmd("DBSIZE").query::<usize>(&mut connection).expect("the server answers");
    let mut earlier = Command::new(support::program("ledger"))
        .args(["--backend", &url])
        .stdout(Stdio::null())
        .spawn()
        .expect("the example starts");
    until(|| size() > 2);
    earlier.kill().expect("it runs");
    earlier.wait().expect("it ends");
    let left = size();
    assert!(left > 2, "the whole process was killed, so its stream stays");

    claimed_by_the_others(good(&ledger(&["--backend", &url])));
    assert_eq!(size(), left);
}

#[test]
fn a_sum_that_is_not_the_files_is_told() {
    let server = Redis::start("ledger-foreign");
    let (url, mut connection) = (server.url(), server.connect());
    let run = std::thread::spawn(move || ledger(&["--backend", &url]));
    // Somebody else's record, as other programs may add one.
    let mut log = Vec::new();
    until(|| {
        log = redis::cmd("KEYS").arg("*.p0}:log").query(&mut connection).expect("the server answers");
        !log.is_empty()
    });
    let data = r#"{"event":"xx1","network":"ak","hundredths":-7}"#;
    let mut add = redis::cmd("XADD");
    let add = add.arg(&log[..1] as &[String]).arg(&["*", "ce_id", "xx1", "ce_partitionkey", "ak", "data", data]);
    add.query::<String>(&mut connection).expect("the stream is there");

    let output = run.join().expect("the thread runs an example");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("`ak` has 298 events and 59423 hundredths, not 297 and 59430"), "{told}");
    assert!(!stdout(&output).contains("the file's own"));
}

/// Waits for something that another process does.
fn until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(10), "it takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn mistakes_are_told_with_the_right_exit_status() {
    let twice = Twice::new();
    for (options, status, said) in [
        (&["--cut"][..], 2, "unknown option `--cut`"),
        (&["--help=yes"], 2, "`--help` takes no value"),
        (&["--backend"], 2, "`--backend` needs a value"),
        (&["--backend", "redis+cluster://nobody:secret@"], 2, "the URL has no host"),
        (&["--backend", "unix:/no/such/socket"], 1, "the server is unavailable"),
        (&["--feed", "/no/such/file"], 1, "can't read the feed `/no/such/file`"),
        (&["--feed", twice.0.to_str().expect("the path is UTF-8")], 1, "two in the feed have one id"),
    ] {
        let output = ledger(options);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert!(!stderr(&output).contains("secret"));
        assert_eq!(stdout(&output), "");
    }
    let help = ledger(&["--help"]);
    assert!(help.status.success() && stdout(&help).contains("--backend"));
}

/// A feed that has an event twice.
struct Twice(PathBuf);

impl Twice {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("ledger-{}-twice.geojson", std::process::id()));
        let event = r#"{"id":"ak1","properties":{"net":"ak","mag":1.5,"place":null,"time":0},"geometry":null}"#;
        std::fs::write(&path, format!(r#"{{"features":[{event},{event}]}}"#)).expect("the folder can be written");
        Self(path)
    }
}

impl Drop for Twice {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
