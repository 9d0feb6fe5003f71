//! The part of a URL that every adapter reads alike: who asks, and where a server listens.

use std::fmt;

/// Of a name in DNS.
const MOST_HOST_BYTES: usize = 253;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostPort {
    pub(super) host: String,
    pub(super) port: u16,
}

impl HostPort {
    /// Takes `host[:port]` apart; `forms` says how a URL is written. An error never quotes what could be a credential.
    pub(super) fn parse(text: &str, default_port: u16, forms: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or("the IPv6 address lacks its closing `]`")?;
                let port = match after {
                    "" => None,
                    after => Some(after.strip_prefix(':').ok_or("write the port as `[address]:port`")?),
                };
                (host, port)
            }
            None => match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err("an IPv6 address needs brackets: `[address]:port`".into());
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(format!("the URL has no host; {forms}"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%');
        if host.len() > MOST_HOST_BYTES || !host.bytes().all(fits) {
            return Err("a host isn't a name of letters, digits, `.`, `-` and `_`, or an IP address".into());
        }
        let port = match port {
            None => default_port,
            // What stands here may be half of a password that wasn't followed by a host.
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                    return Err("the port isn't a number from 1 to 65535".into());
                }
                _ => return Err("the port isn't a number from 1 to 65535; put a user's password before an `@`".into()),
            },
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// As a URL has it, and librdkafka takes it.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Splits what follows a scheme's `:` into who asks, still encoded, and the rest.
pub(super) fn split<'a>(rest: &'a str, forms: &str) -> Result<(Option<&'a str>, &'a str), String> {
    let rest = rest.strip_prefix("//").ok_or_else(|| format!("`//` is missing after the scheme; {forms}"))?;
    // A password may hold what ends an authority if it isn't encoded, so the last `@` is sought first.
    let Some((userinfo, rest)) = rest.rsplit_once('@') else { return Ok((None, rest)) };
    if userinfo.contains(['/', '?', '#', '@']) {
        return Err("user and password hold `/`, `?`, `#` or `@`; percent-encode them".into());
    }
    Ok((Some(userinfo), rest))
}

/// Undoes percent-encoding.
pub(super) fn decoded(text: &str) -> Result<String, String> {
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
