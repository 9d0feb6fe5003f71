//! The command line.

use std::fmt;
use std::path::PathBuf;

use tidings::backend::Redis;

pub(crate) const HELP: &str = "\
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

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) backend: Backend,
    pub(crate) feed: PathBuf,
    pub(crate) cut: bool,
}

#[derive(Debug)]
pub(crate) enum Backend {
    Memory,
    Redis { backend: Redis, url: Url },
}

/// A server's URL. It may hold a password, so it has no readable `Debug`.
pub(crate) struct Url(pub(crate) String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Url(..)")
    }
}

/// Reads the arguments after the program's name, or says in one line what is wrong with them. `None` asks for help.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Args>, String> {
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
            ("--help" | "-h", _) => return Ok(None),
            ("--cut", _) => parsed.cut = true,
            ("--feed", Some(file)) => parsed.feed = file.into(),
            ("--backend", Some(backend)) => parsed.backend = backend_of(&backend)?,
            ("--feed" | "--backend", None) => return Err(format!("`{option}` needs a value")),
            _ => return Err(format!("unknown option `{arg}`")),
        }
    }
    Ok(Some(parsed))
}

fn backend_of(text: &str) -> Result<Backend, String> {
    match text {
        "memory" => Ok(Backend::Memory),
        url if url.contains(':') => {
            // The error says what is wrong with the URL, without what could be a password.
            let backend = Redis::new(url).map_err(|wrong| wrong.to_string())?;
            Ok(Backend::Redis { backend, url: Url(url.to_owned()) })
        }
        _ => Err(format!("unknown backend `{text}`; give `memory` or a URL such as `redis://localhost`")),
    }
}
