//! Earthquakes counted exactly once, whoever dies when: `cargo run --example warehouse`, with `--help` for more.
//!
//! It appends the US Geological Survey's feed to a stream of six partitions, keyed by the reporting network. Two members of
//! a commit group read it page by page, and write for each page what every network's events add up to, into
//! another stream: in one unit with the positions that they commit. One of them is killed on the way, when it has
//! counted a page and not yet recorded it; its partitions go to the other. What stands in the other stream must add up to
//! the file, or the exit status is 1.
//!
//! | file | what it holds |
//! |---|---|
//! | `entry.rs` | the declarations: what comes in, what goes out, and what that requires of a backend |
//! | `member.rs` | a member: read, count, record |
//! | `crew.rs` | the members' processes, and how one is killed |
//! | `run.rs` | the whole run on any backend with commit groups and transactions |
//! | `check.rs` | compares with the plain file |
//! | `report.rs` | what is printed |
//!
//! Reading the feed, the accounts and the command line are in `examples/shared/`.

mod check;
mod crew;
mod entry;
mod member;
mod report;
mod run;

use std::process::ExitCode;

use tidings::backend::{AnyBackend, Memory};
use tidings_examples::{Args, Backend, Failure, Feed, arguments, ended};

use crate::crew::{MEMBER, Processes, THERE, Tasks};
use crate::entry::QuakeDelivered;

const HELP: &str = "\
Counts a week of earthquakes exactly once, by two members of a commit group of which one is killed.

Usage: cargo run --example warehouse -- [OPTIONS]

Options:
  --backend memory       Within this process (the default)
  --backend URL          On Kafka: kafka://[user:password@]host[:port],.. ; needs `--features kafka`
  --feed FILE            Another GeoJSON feed of the US Geological Survey
  --help                 Prints this

On Kafka the members are processes of their own, and one gets SIGKILL, which the servers notice after 45 s. Each run has
streams of its own, named after the time, and deletes them at the end.

Exit status: 0 when what was written adds up to the file; 1 when not or when something failed, 2 for options that it
doesn't know.
";

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(MEMBER) {
        return ended("warehouse", be(args).await.map(|()| true));
    }
    match arguments("warehouse", HELP, &[]) {
        Ok(args) => ended("warehouse", run(args).await),
        Err(exit) => exit,
    }
}

/// Says whether the counts are right.
async fn run(args: Args) -> Result<bool, Failure> {
    let feed = Feed::read(&args.feed)?;
    let quakes: Vec<_> = feed.quakes.into_iter().map(QuakeDelivered::from).collect();
    let environment = run::environment()?;
    let outcome = match args.backend {
        Backend::Memory => {
            let memory = Memory::new();
            let crew = Tasks::new(memory.clone(), &environment);
            run::on(memory, crew, &environment, &quakes).await?
        }
        Backend::Kafka { backend, url } => {
            let crew = Processes::new(url.0, &environment);
            run::on(backend, crew, &environment, &quakes).await?
        }
        // It wouldn't compile: the declaration requires what Redis doesn't have.
        Backend::Redis { .. } | Backend::Cluster(_) => {
            return Err("Redis has no commit groups; `ledger` runs on it".into());
        }
        Backend::Nats(_) => return Err("NATS has no commit groups; `agents` runs on it".into()),
    };
    let faults = check::faults(&feed.plain, &outcome);
    report::print(&outcome, &faults);
    Ok(faults.is_empty())
}

/// Is one of the members.
async fn be(mut args: impl Iterator<Item = String>) -> Result<(), Failure> {
    let (Some(name), Some(environment)) = (args.next(), args.next()) else {
        return Err(format!("`{MEMBER}` is for the processes that this program starts").into());
    };
    let killed_after = args.next().and_then(|pages| pages.parse().ok());
    let url = std::io::read_to_string(std::io::stdin())?;
    let broker = run::broker(AnyBackend::new(url)?, &environment)?;
    let working = member::work(broker.clone(), name, killed_after, || println!("{THERE}"));
    working.await?;
    broker.close(run::PATIENCE).await?;
    Ok(())
}
