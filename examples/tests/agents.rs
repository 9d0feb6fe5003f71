//! Runs the example as a person does: by its options, its output and its exit status.

#![allow(clippy::disallowed_methods, reason = "what is tested is a process, so time is real and nothing is async")]

mod support;

use std::process::Output;

use serde_json::Value;
use support::{line, stderr, stdout};

const FEED: &str = include_str!("../data/usgs-all-week.geojson");

fn agents(options: &[&str]) -> Output {
    support::run("agents", options)
}

/// How many events of the file this is true of, by network and magnitude.
fn count(is_meant: impl Fn(&str, f64) -> bool) -> u64 {
    let feed: Value = serde_json::from_str(FEED).expect("the feed is JSON");
    let features = feed["features"].as_array().expect("a feed has features").iter();
    let properties = features.map(|feature| &feature["properties"]);
    let meant =
        properties.filter(|one| is_meant(one["net"].as_str().unwrap_or(""), one["mag"].as_f64().unwrap_or(-9.0)));
    meant.count() as u64
}

/// The numbers of an owner's line: deliveries, first, second and later attempts, acked, delayed, terminated, kept alive.
fn told(text: &str, owner: &str) -> Vec<u64> {
    let words = line(text, owner);
    words[1..].iter().map(|word| word.parse().expect("the columns hold numbers")).collect()
}

#[test]
fn every_delivery_has_one_outcome_and_the_table_adds_up() {
    let output = agents(&[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.starts_with("Appended 1707 events on tidings memory"), "{text}");
    let (tiny, strong) = (count(|_, magnitude| magnitude < 0.0), count(|_, magnitude| magnitude >= 4.495));
    assert!(tiny > 20 && strong > 20, "the file has some of each");
    let triage = told(text, "c_triage");
    assert_eq!(triage, [1707 + strong, 1707, strong, 0, 1707 - tiny, strong, tiny, 0]);
    let alaska = told(text, "c_alaska");
    let of_alaska = count(|network, _| network == "ak");
    assert_eq!(alaska[..7], [of_alaska, of_alaska, 0, 0, of_alaska, 0, 0]);
    assert!(alaska[7] >= 4, "it was slow over some and stayed alive: {text}");
    assert_eq!(told(text, "m_totals"), [1707 + 42, 1707, 42, 0, 1707, 42, 0, 0]);
    assert!(text.contains(&format!("`c_triage` terminated {tiny}: the magnitude is negative.")), "{text}");
    assert!(text.contains("2616.39") && text.contains("Every delivery has one outcome"), "{text}");
}

#[test]
fn mistakes_are_told_with_the_right_exit_status() {
    for (options, status, said) in [
        (&["--cut"][..], 2, "unknown option `--cut`"),
        (&["--backend", "redis://localhost"], 1, "Redis has no cursors"),
        (&["--feed", "/no/such/file"], 1, "can't read the feed `/no/such/file`"),
    ] {
        let output = agents(options);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}
