//! The command line.

use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Publishes a week of earthquakes as typed events and follows them by key, by key prefix, and all.

Usage: cargo run --example quakes -- [OPTIONS]

Options:
  --backend memory       Within this process (the default)
  --feed FILE            Another GeoJSON feed of the US Geological Survey
  --cut                  Cuts the connection half-way, and shows what each follower was told and how it caught up
  --help                 Prints this

Exit status: 0 when every follower got every event once and in order (and, with --cut, was told of a gap), 1 when not
or when something failed, 2 for options that it doesn't know.
";

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    ForHelp,
    ToRun(Args),
}

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) backend: Backend,
    pub(crate) feed: PathBuf,
    pub(crate) cut: bool,
}

#[derive(Debug)]
pub(crate) enum Backend {
    Memory,
}

/// Reads the arguments after the program's name, or says in one line what is wrong with them.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Asked, String> {
    let feed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/usgs-all-week.geojson"));
    let mut parsed = Args { backend: Backend::Memory, feed, cut: false };
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        // Both `--feed FILE` and `--feed=FILE`.
        let (option, inline) = match arg.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let takes_value = matches!(option, "--backend" | "--feed");
        if inline.is_some() && !takes_value && matches!(option, "--cut" | "--help" | "-h") {
            return Err(format!("`{option}` takes no value"));
        }
        let value = if takes_value { inline.or_else(|| args.next()) } else { None };
        match (option, value) {
            ("--help" | "-h", _) => return Ok(Asked::ForHelp),
            ("--cut", _) => parsed.cut = true,
            ("--feed", Some(file)) => parsed.feed = file.into(),
            ("--backend", Some(backend)) => parsed.backend = backend_of(&backend)?,
            ("--feed" | "--backend", None) => return Err(format!("`{option}` needs a value")),
            _ => return Err(format!("unknown option `{arg}`")),
        }
    }
    Ok(Asked::ToRun(parsed))
}

fn backend_of(text: &str) -> Result<Backend, String> {
    match text {
        "memory" => Ok(Backend::Memory),
        _ => Err(format!("unknown backend `{text}`; give `memory`")),
    }
}
