//! `cargo test -p ui-tests`; `TRYBUILD=overwrite` writes the expected texts anew, to be read before they are committed.
//!
//! Each folder of `ui/` holds one kind of mistake, each file is named after one; `pass/` must compile and run.

/// The texts are rustc's own, so they are compared with the compiler that the workspace pins.
#[rustversion::stable(1.95)]
#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    // A case that passes makes trybuild build all of them, so that errors after type checking show as well.
    cases.pass("pass/*.rs");
    cases.compile_fail("ui/topic/*.rs");
    cases.compile_fail("ui/topic_key/*.rs");
    cases.compile_fail("ui/stream_spec/*.rs");
    cases.compile_fail("ui/capability/*.rs");
    cases.compile_fail("ui/stream/*.rs");
    cases.compile_fail("ui/backends/*.rs");
}

#[rustversion::not(stable(1.95))]
#[test]
fn ui() {
    // Not by `println!`, which is shown for failed tests alone.
    let mut out = std::io::stderr();
    let _ = std::io::Write::write_all(&mut out, b"SKIPPED: the compile-time cases are written for Rust 1.95\n");
}
