//! What the examples share: reading the feed, the command line, and how they end.

mod account;
mod args;
mod feed;

pub use account::{Account, Accounts, accounts, difference, hundredths, write_accounts};
pub use args::{Args, Backend, Url, parse};
pub use feed::{Feed, Quake};

use std::error::Error;
use std::process::ExitCode;

/// Any error, for a person to read.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Reads the command line of an example with these flags of its own, and answers what isn't a run: help and mistakes.
///
/// # Errors
///
/// The exit status, after help or the mistake was printed.
pub fn arguments(example: &str, help: &str, flags: &[&'static str]) -> Result<Args, ExitCode> {
    match parse(std::env::args().skip(1), flags) {
        Ok(Some(args)) => Ok(args),
        Ok(None) => {
            print!("{help}");
            Err(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            eprintln!("{example}: {wrong}\nTry `--help`.");
            Err(ExitCode::from(2))
        }
    }
}

/// Says by the exit status whether all was as it should be, and prints what failed.
#[must_use]
pub fn ended(example: &str, run: Result<bool, Failure>) -> ExitCode {
    match run {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failed) => {
            eprintln!("{example}: {}", with_sources(&*failed));
            ExitCode::FAILURE
        }
    }
}

/// An error and what it came from, in one line.
#[must_use]
pub fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some errors quote their source already.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
