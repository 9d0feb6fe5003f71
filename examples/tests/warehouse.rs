//! Runs the example as a person does: by its options, its output and its exit status.

mod support;

use support::{line, run, stderr, stdout};

#[test]
fn every_event_is_counted_once_though_a_member_is_killed() {
    let output = run("warehouse", &[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert_eq!(line(text, "all "), ["all", "1707", "0", "2616.39"]);
    assert!(text.contains("Every event is counted once"), "{text}");
    let counted = |member: &str| line(text, member)[1].parse::<u32>().expect("a number stands there");
    assert!(counted("house-2") > 0, "{text}");
    assert_eq!(counted("house-1") + counted("house-2"), 1_707);
}

#[test]
fn what_it_can_not_run_on_is_refused_in_a_line() {
    let output = run("warehouse", &["--backend", "redis://localhost"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "warehouse: Redis has no commit groups; `ledger` runs on it\n");
    let output = run("warehouse", &["--member", "one"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("for the processes that this program starts"), "{}", stderr(&output));
}
