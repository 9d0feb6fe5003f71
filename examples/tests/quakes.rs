//! Runs the example as a person does: by its options, its output and its exit status.

#![allow(clippy::disallowed_methods, reason = "what is tested is a process, so time is real and nothing is async")]

// Its tests run here: an example that is built as a test isn't built as a program.
#[path = "../quakes/difference.rs"]
mod difference;

mod support;

use std::process::Output;

use support::{Redis, line, stderr, stdout};

fn quakes(options: &[&str]) -> Output {
    support::run("quakes", options)
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
        (&["--backend", "redis+cluster://nobody:secret@"], 2, "the URL has no host"),
        (&["--backend", "redis+cluster://localhost"], 1, "a cluster has no patterns"),
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
