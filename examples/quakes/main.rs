//! A week of earthquakes as typed events: `cargo run --example quakes`, with `--help` for more.
//!
//! It publishes the US Geological Survey's feed event by event while three supervised followers listen: to one key, to
//! a key prefix, and to everything. At the end each must have every event once and in order, or the exit status is 1.
//! With `--cut` it loses its own connection half-way, and shows what every follower was told and how it caught up.
//!
//! | file | what it holds |
//! |---|---|
//! | `quake.rs` | the declaration: payload, key, version |
//! | `follow.rs` | the supervised followers: what to do with an event, and what to do about a gap |
//! | `journal.rs` | the state behind the events, which a follower reads again after a gap |
//! | `run.rs` | the whole run on any backend with patterns: publish, follow, stop, close |
//! | `cut.rs` | how a connection is cut |
//! | `check.rs` | works out from the plain file what everyone should have, and compares |
//! | `difference.rs` | tells what is missing, too many or out of order |
//! | `report.rs` | what is printed |
//!
//! Reading the feed and the command line are in `examples/shared/`.

mod check;
mod cut;
mod difference;
mod follow;
mod journal;
mod quake;
mod report;
mod run;

use std::process::ExitCode;

use tidings::backend::Memory;
use tidings_examples::{Args, Backend, Failure, Feed, arguments, ended};

use crate::cut::Cut;
use crate::run::Run;

const HELP: &str = "\
Publishes a week of earthquakes as typed events and follows them by key, by key prefix, and all.

Usage: cargo run --example quakes -- [OPTIONS]

Options:
  --backend memory       Within this process (the default)
  --backend URL          Over Redis or Valkey: redis://[user:password@]host[:port], rediss://.. or unix:/path
  --feed FILE            Another GeoJSON feed of the US Geological Survey
  --cut                  Cuts the connection half-way, and shows what each follower was told and how it caught up
                         (on a server by CLIENT KILL TYPE pubsub, which cuts everyone's: use a server of your own)
  --help                 Prints this

Exit status: 0 when every follower got every event once and in order (and, with --cut, was told of a gap), 1 when not
or when something failed, 2 for options that it doesn't know.
";

#[tokio::main]
async fn main() -> ExitCode {
    match arguments("quakes", HELP, &["--cut"]) {
        Ok(args) => ended("quakes", run(args).await),
        Err(exit) => exit,
    }
}

/// Says whether everyone got what they should.
async fn run(args: Args) -> Result<bool, Failure> {
    let cut = args.has("--cut");
    let feed = Feed::read(&args.feed)?;
    let quakes = feed.quakes.into_iter().map(Into::into).collect();
    let outcome = match args.backend {
        Backend::Memory => {
            let memory = Memory::new();
            let cut = cut.then(|| Cut::Memory(memory.clone()));
            Run::new(quakes).on(memory, cut).await?
        }
        Backend::Redis { backend, url } => {
            let cut = if cut { Some(Cut::redis(&url).await?) } else { None };
            Run::new(quakes).on(backend, cut).await?
        }
        Backend::Nats(_) if cut => return Err("`--cut` is for memory and Redis".into()),
        Backend::Nats(backend) => Run::new(quakes).on(backend, None).await?,
        // It wouldn't compile: following by prefix takes patterns.
        Backend::Cluster(_) => return Err("a cluster has no patterns to follow by prefix; give a single server".into()),
        Backend::Kafka { .. } => return Err("Kafka has no topics; `warehouse` runs on it".into()),
    };
    let verdict = check::verdict(&feed.plain, &outcome);
    report::print(&outcome, &verdict);
    Ok(verdict.is_good())
}
