//! Durable work for agents and modules: `cargo run --example agents`, with `--help` for more.
//!
//! It appends the US Geological Survey's feed to a stream that three durables hand out. An agent looks at every event, one
//! at a time: it refuses those of negative magnitude for ever, with a reason, and puts strong ones off for a second look.
//! Another agent takes Alaska's events alone, and is slow over some of them, but stays alive. A module adds everything up by a
//! worker, whose handler fails now and then. At the end every delivery must have one outcome, and every event the right
//! one, or the exit status is 1.
//!
//! | file | what it holds |
//! |---|---|
//! | `entry.rs` | the declaration: payload, key, version, and what it requires of a backend |
//! | `agents.rs` | the agents: a cursor each, settled by hand |
//! | `module.rs` | the module: a worker over its durable |
//! | `tally.rs` | what became of each delivery |
//! | `run.rs` | the whole run on any backend with cursors: ensure, append, work, stop, delete, close |
//! | `check.rs` | works out from the plain file what should have become of every event, and compares |
//! | `report.rs` | what is printed |
//!
//! Reading the feed and the command line are in `examples/shared/`.

mod agents;
mod check;
mod entry;
mod module;
mod report;
mod run;
mod tally;

use std::process::ExitCode;

use tidings::backend::Memory;
use tidings_examples::{Args, Backend, Failure, Feed, arguments, ended};

use crate::entry::QuakeReported;

const HELP: &str = "\
Appends a week of earthquakes to a stream, and has two agents and a module work on it by durables of their own.

Usage: cargo run --example agents -- [OPTIONS]

Options:
  --backend memory       Within this process (the default)
  --backend URL          Over NATS JetStream, built with `--features nats`: nats://[user:password@]host[:port]
  --feed FILE            Another GeoJSON feed of the US Geological Survey
  --help                 Prints this

Each run has a stream of its own, named after the time, and deletes it at the end.

Exit status: 0 when every event has the outcome that the file says and the attempts add up; 1 when not or when something
failed, 2 for options that it doesn't know.
";

#[tokio::main]
async fn main() -> ExitCode {
    match arguments("agents", HELP, &[]) {
        Ok(args) => ended("agents", run(args).await),
        Err(exit) => exit,
    }
}

/// Says whether every event has its outcome.
async fn run(args: Args) -> Result<bool, Failure> {
    let feed = Feed::read(&args.feed)?;
    let quakes: Vec<_> = feed.quakes.into_iter().map(QuakeReported::from).collect();
    let outcome = match args.backend {
        Backend::Memory => run::on(Memory::new(), &quakes).await?,
        Backend::Nats(backend) => run::on(backend, &quakes).await?,
        // It wouldn't compile: the declaration requires what these don't have.
        Backend::Redis { .. } | Backend::Cluster(_) => return Err("Redis has no cursors; `ledger` runs on it".into()),
        Backend::Kafka { .. } => return Err("Kafka has no cursors; `warehouse` runs on it".into()),
    };
    let faults = check::faults(&feed.plain, &outcome);
    report::print(&outcome, &faults);
    Ok(faults.is_empty())
}
