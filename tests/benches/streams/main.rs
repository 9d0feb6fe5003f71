//! Streams beside what people write by hand, in turns: `cargo bench -p tidings-tests --bench streams [memory|redis|redis-aof]`.
//! `count tidings|redis TASKS ENTRIES` appends by one side alone, for `scripts/instructions`.
//!
//! It fails when an entry was lost or duplicated or a round timed out. A target that is missed is said, not failed: the
//! figures depend on the machine and what else runs there. See docs/benchmarks.md.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a bench spawns, and measures by the wall clock")]

#[path = "../topics/measure.rs"]
mod measure;
mod memory;
#[path = "../payload/mod.rs"]
mod payload;
mod server;
mod text;

use std::process::ExitCode;

type Run = fn() -> Result<(), String>;

fn main() -> ExitCode {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [count, side, tasks, entries] = &wanted[..]
        && count == "count"
    {
        let (Ok(tasks), Ok(entries)) = (tasks.parse(), entries.parse()) else {
            eprintln!("streams: count: give how many tasks and entries");
            return ExitCode::FAILURE;
        };
        return ended("count", server::count(side, tasks, entries));
    }
    let runs: [(_, Run); 3] = [
        ("memory", memory::run),
        ("redis", || server::run("appendonly no")),
        ("redis-aof", || server::run("appendonly yes")),
    ];
    for (name, run) in runs {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let ended = ended(name, run());
        if ended != ExitCode::SUCCESS {
            return ended;
        }
    }
    ExitCode::SUCCESS
}

fn ended(name: &str, result: Result<(), String>) -> ExitCode {
    let Err(problem) = result else { return ExitCode::SUCCESS };
    eprintln!("streams: {name}: {problem}");
    ExitCode::FAILURE
}
