//! The command line: what every example takes, and the flags that only one has.

use std::fmt;
use std::path::PathBuf;

use tidings::backend::{AnyBackend, Redis, RedisCluster};

/// What the command line asks for.
#[derive(Debug)]
pub struct Args {
    /// Where it runs.
    pub backend: Backend,
    /// The feed's file.
    pub feed: PathBuf,
    flags: Vec<&'static str>,
}

impl Args {
    /// Says whether a flag was given.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// Where an example runs.
#[derive(Debug)]
pub enum Backend {
    /// Within this process.
    Memory,
    /// On a server.
    Redis {
        /// The backend.
        backend: Redis,
        /// What it was made from.
        url: Url,
    },
    /// On a cluster.
    Cluster(RedisCluster),
    /// On Kafka.
    Kafka {
        /// The backend.
        backend: AnyBackend,
        /// What it was made from.
        url: Url,
    },
    /// On NATS.
    Nats(AnyBackend),
}

/// A server's URL. It may hold a password, so it has no readable `Debug`.
pub struct Url(pub String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Url(..)")
    }
}

/// Reads the arguments after the program's name, or says in one line what is wrong with them. `None` asks for help.
///
/// # Errors
///
/// The mistake.
pub fn parse(args: impl IntoIterator<Item = String>, flags: &[&'static str]) -> Result<Option<Args>, String> {
    let feed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/usgs-all-week.geojson"));
    let mut parsed = Args { backend: Backend::Memory, feed, flags: Vec::new() };
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        // Both `--feed FILE` and `--feed=FILE`.
        let (option, inline) = match arg.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let takes_value = matches!(option, "--backend" | "--feed");
        let flag = flags.iter().find(|flag| **flag == option);
        if inline.is_some() && !takes_value && (flag.is_some() || matches!(option, "--help" | "-h")) {
            return Err(format!("`{option}` takes no value"));
        }
        let value = if takes_value { inline.or_else(|| args.next()) } else { None };
        match (option, value) {
            ("--help" | "-h", _) => return Ok(None),
            ("--feed", Some(file)) => parsed.feed = file.into(),
            ("--backend", Some(backend)) => parsed.backend = backend_of(&backend)?,
            ("--feed" | "--backend", None) => return Err(format!("`{option}` needs a value")),
            _ => parsed.flags.push(flag.ok_or_else(|| format!("unknown option `{arg}`"))?),
        }
    }
    Ok(Some(parsed))
}

fn backend_of(text: &str) -> Result<Backend, String> {
    // The errors say what is wrong with the URL, without what could be a password.
    match text {
        "memory" => Ok(Backend::Memory),
        url => match url.split_once("+cluster://") {
            Some((scheme, rest)) => {
                // One user for all nodes.
                let (user, nodes) = rest.rsplit_once('@').map_or(("", rest), |(user, nodes)| (user, nodes));
                let at = if user.is_empty() { "" } else { "@" };
                let urls = nodes.split(',').map(|node| format!("{scheme}://{user}{at}{node}"));
                RedisCluster::new(urls).map(Backend::Cluster).map_err(|wrong| wrong.to_string())
            }
            None if url.starts_with("kafka") => {
                let backend = AnyBackend::new(url).map_err(|wrong| wrong.to_string())?;
                Ok(Backend::Kafka { backend, url: Url(url.to_owned()) })
            }
            None if url.starts_with("nats:") || url.starts_with("tls:") => {
                AnyBackend::new(url).map(Backend::Nats).map_err(|wrong| wrong.to_string())
            }
            None if url.contains(':') => {
                let backend = Redis::new(url).map_err(|wrong| wrong.to_string())?;
                Ok(Backend::Redis { backend, url: Url(url.to_owned()) })
            }
            None => Err(format!("unknown backend `{text}`; give `memory` or a URL such as `redis://localhost`")),
        },
    }
}
