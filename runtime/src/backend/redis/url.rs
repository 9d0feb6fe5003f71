//! Where a server is and who asks: the URL, taken apart.

use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
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
    let rest = rest.strip_prefix("//").ok_or_else(|| format!("`//` is missing after the scheme; {FORMS}"))?;
    // A password may hold what ends an authority if it isn't encoded, so the last `@` is sought first.
    let (userinfo, rest) = match rest.rsplit_once('@') {
        Some((userinfo, rest)) => (Some(userinfo), rest),
        None => (None, rest),
    };
    if userinfo.is_some_and(|userinfo| userinfo.contains(['/', '?', '#', '@'])) {
        return Err("user and password hold `/`, `?`, `#` or `@`; percent-encode them".into());
    }
    if rest.contains('#') {
        return Err("a fragment (`#..`) means nothing here, and certificates are always verified; leave it out".into());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !query.is_empty() {
        return Err("a query (`?..`) means nothing for a host; leave it out".into());
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) =
                bracketed.split_once(']').ok_or_else(|| "the IPv6 address lacks its closing `]`".to_owned())?;
            let port = match after {
                "" => None,
                after => Some(after.strip_prefix(':').ok_or("write the port as `[address]:port`")?),
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address needs brackets: `[address]:port`".into());
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(format!("the URL has no host; {FORMS}"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        // What stands here may be half of a password that wasn't followed by a host.
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err("the port isn't a number from 1 to 65535".into());
            }
            _ => return Err("the port isn't a number from 1 to 65535; put a user's password before an `@`".into()),
        },
    };
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
    let address = Address { endpoint: Endpoint::Tcp { host: host.to_owned(), port }, tls, user, password, database };
    complete(address)
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

fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
            let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                return Err("a `%` isn't followed by two hexadecimal digits; write `%25` for the sign itself".into());
            };
            bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| "a percent-encoded part of the URL isn't UTF-8".to_owned())
}
