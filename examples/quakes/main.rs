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
//! | `feed.rs` | reads the feed |
//! | `check.rs` | works out from the plain file what everyone should have, and compares |
//! | `difference.rs` | tells what is missing, too many or out of order |
//! | `report.rs` | what is printed |
//! | `args.rs` | the command line |

mod args;
mod check;
mod cut;
mod difference;
mod feed;
mod follow;
mod journal;
mod quake;
mod report;
mod run;

use std::process::ExitCode;

use tidings::backend::Memory;

use crate::args::{Args, Backend};
use crate::cut::Cut;
use crate::feed::Feed;
use crate::run::Run;

/// Any error, for a person to read.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("quakes: {wrong}\nTry `--help`.");
            return ExitCode::from(2);
        }
    };
    match run(args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failed) => {
            eprintln!("quakes: {}", report::with_sources(&*failed));
            ExitCode::FAILURE
        }
    }
}

/// Says whether everyone got what they should.
async fn run(args: Args) -> Result<bool, Failure> {
    let feed = Feed::read(&args.feed)?;
    let outcome = match args.backend {
        Backend::Memory => {
            let memory = Memory::new();
            let cut = args.cut.then(|| Cut::Memory(memory.clone()));
            Run::new(feed.quakes).on(memory, cut).await?
        }
        Backend::Redis { backend, url } => {
            let cut = if args.cut { Some(Cut::redis(&url).await?) } else { None };
            Run::new(feed.quakes).on(backend, cut).await?
        }
    };
    let verdict = check::verdict(&feed.plain, &outcome);
    report::print(&outcome, &verdict);
    Ok(verdict.is_good())
}
