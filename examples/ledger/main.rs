//! Earthquakes as a ledger that comes out exact: `cargo run --example ledger`, with `--help` for more.
//!
//! It appends the US Geological Survey's feed to a stream, keyed by the reporting network, and repeats a part of that
//! under the same ids. Three workers of one ack group book what they get: a count and a sum for each network. One of them
//! is killed on the way, at the worst moment: when it has booked and not yet acknowledged. The others claim what
//! it leaves. Every event must be booked once, to the last hundredth, or the exit status is 1.
//!
//! | file | what it holds |
//! |---|---|
//! | `entry.rs` | the declaration: payload, key, version, and what it requires of a backend |
//! | `books.rs` | what the events add up to; the place where at least once becomes once in effect |
//! | `work.rs` | the workers, and how one of them is killed |
//! | `run.rs` | the whole run on any backend with ack groups: append, repeat, work, stop, delete, close |
//! | `check.rs` | works out from the plain file what the books should say, and compares |
//! | `report.rs` | what is printed |
//!
//! Reading the feed and the command line are in `examples/shared/`.

mod books;
mod check;
mod entry;
mod report;
mod run;
mod work;

use std::process::ExitCode;

use tidings::backend::Memory;
use tidings_examples::{Args, Backend, Failure, Feed, arguments, ended};

use crate::entry::QuakeRecorded;

const HELP: &str = "\
Appends a week of earthquakes to a stream, and adds them up by three workers of which one is killed.

Usage: cargo run --example ledger -- [OPTIONS]

Options:
  --backend memory       Within this process (the default)
  --backend URL          Over Redis or Valkey: redis://[user:password@]host[:port], rediss://.. or unix:/path
  --backend URL          Over a Redis Cluster: redis+cluster://[user:password@]host[:port],host[:port],..
  --feed FILE            Another GeoJSON feed of the US Geological Survey
  --help                 Prints this

Each run has a stream of its own, named after the time, and deletes it at the end.

Exit status: 0 when every event was booked once, the sums are the file's own, and what was appended again was told as
duplicates; 1 when not or when something failed, 2 for options that it doesn't know.
";

#[tokio::main]
async fn main() -> ExitCode {
    match arguments("ledger", HELP, &[]) {
        Ok(args) => ended("ledger", run(args).await),
        Err(exit) => exit,
    }
}

/// Says whether the books are right.
async fn run(args: Args) -> Result<bool, Failure> {
    let feed = Feed::read(&args.feed)?;
    let entries: Vec<_> = feed.quakes.into_iter().map(QuakeRecorded::from).collect();
    let outcome = match args.backend {
        Backend::Memory => run::on(Memory::new(), &entries).await?,
        Backend::Redis { backend, .. } => run::on(backend, &entries).await?,
        Backend::Cluster(backend) => run::on(backend, &entries).await?,
        Backend::Kafka { .. } => return Err("Kafka has no ack groups; `warehouse` runs on it".into()),
        Backend::Nats(_) => return Err("NATS has no ack groups; `agents` runs on it".into()),
    };
    let faults = check::faults(&feed.plain, &outcome);
    report::print(&outcome, &faults);
    Ok(faults.is_empty())
}
