//! Where a server is and who asks: the URL, taken apart.

use std::fmt;
use std::path::PathBuf;

use super::super::authority::{HostPort, decoded, split};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Endpoint {
    Tcp(HostPort),
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => place.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A URL's parts. Its texts may be credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) endpoint: Endpoint,
    pub(super) tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
}

const FORMS: &str =
    "write `redis://[user:password@]host[:port][/database]`, `rediss://..` for TLS, or `unix:/path[?db=number]`";
const DEFAULT_PORT: u16 = 6379;

/// Takes a URL apart. An error never quotes what could be a credential.
pub(super) fn parse(url: &str) -> Result<Address, String> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("the URL has no scheme; {FORMS}"))?;
    match scheme {
        "redis" | "valkey" => tcp(rest, false),
        "rediss" | "valkeys" => tcp(rest, true),
        "unix" | "redis+unix" | "valkey+unix" => unix(rest),
        "redis+sentinel" | "rediss+sentinel" => {
            Err("Sentinel isn't supported; give the primary's own address, or one that follows it".into())
        }
        _ => Err(format!("the URL's scheme isn't one of Redis; {FORMS}")),
    }
}

fn tcp(rest: &str, tls: bool) -> Result<Address, String> {
    let (userinfo, rest) = split(rest, FORMS)?;
    if rest.contains('#') {
        return Err("a fragment (`#..`) means nothing here, and certificates are always verified; leave it out".into());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !query.is_empty() {
        return Err("a query (`?..`) means nothing for a host; leave it out".into());
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoint = Endpoint::Tcp(HostPort::parse(host, DEFAULT_PORT, FORMS)?);
    let database = match path.trim_end_matches('/') {
        "" => 0,
        number => self::database(number)?,
    };
    let (user, password) = match userinfo {
        None => (None, None),
        Some(userinfo) => {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            (filled(decoded(user)?), filled(decoded(password)?))
        }
    };
    complete(Address { endpoint, tls, user, password, database })
}

fn unix(rest: &str) -> Result<Address, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/') {
        return Err("a socket's path is absolute; write `unix:/path/to/socket`".into());
    }
    let endpoint = Endpoint::Unix(decoded(path)?.into());
    let mut address = Address { endpoint, tls: false, user: None, password: None, database: 0 };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", number)) => address.database = database(number)?,
            Some(("user", user)) => address.user = filled(decoded(user)?),
            Some(("pass", password)) => address.password = filled(decoded(password)?),
            _ => return Err("a socket's query takes `db`, `user` and `pass`; leave the rest out".into()),
        }
    }
    complete(address)
}

fn complete(address: Address) -> Result<Address, String> {
    if address.user.is_some() && address.password.is_none() {
        return Err("the user has no password; write `user:password@`, or `:password@` for the default user".into());
    }
    Ok(address)
}

fn database(number: &str) -> Result<u32, String> {
    number.parse().map_err(|_| "the database isn't a number from 0; write it as `/0`".to_owned())
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
