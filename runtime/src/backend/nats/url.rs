//! Where the servers are and who asks: the URL, taken apart.

use super::super::authority::{HostPort, decoded, split};

/// A URL's parts. Its texts may be credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) endpoints: Vec<HostPort>,
    pub(super) tls: bool,
    pub(super) login: Option<Login>,
}

/// Who asks, as far as a URL can tell.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Password(String, String),
    Token(String),
}

const FORMS: &str = "write `nats://[user:password@]host[:port][,host2[:port]]`, or `tls://..` for TLS";
const DEFAULT_PORT: u16 = 4_222;
/// They are tried one after another within one timeout.
const MOST_ENDPOINTS: usize = 16;
const MOST_LOGIN_BYTES: usize = 1_024;

/// Takes a URL apart. An error never quotes what could be a credential.
pub(super) fn parse(url: &str) -> Result<Address, String> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("the URL has no scheme; {FORMS}"))?;
    let tls = match scheme {
        "nats" => false,
        "tls" => true,
        "ws" | "wss" => return Err(format!("NATS over WebSocket isn't spoken here; {FORMS}")),
        _ => return Err(format!("the URL's scheme isn't one of NATS; {FORMS}")),
    };
    let (userinfo, rest) = split(rest, FORMS)?;
    if rest.contains(['?', '#']) {
        return Err("a query (`?..`) or fragment (`#..`) means nothing here; leave it out".into());
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // Other clients' lists repeat the scheme.
    let again = format!("{scheme}://");
    let hosts: Vec<_> = rest.split(',').map(|host| host.strip_prefix(&again).unwrap_or(host)).collect();
    if hosts.iter().any(|host| host.contains("://")) {
        return Err(format!("a host has a scheme of its own; leave it out: all have the first one's. {FORMS}"));
    }
    if hosts.iter().any(|host| host.contains('/')) {
        return Err("a path means nothing here: topics and streams have their own addresses; leave it out".into());
    }
    let endpoints =
        hosts.into_iter().map(|host| HostPort::parse(host, DEFAULT_PORT, FORMS)).collect::<Result<Vec<_>, _>>()?;
    if endpoints.len() > MOST_ENDPOINTS {
        return Err(format!("the URL has more than {MOST_ENDPOINTS} hosts; name a few of them"));
    }
    Ok(Address { endpoints, tls, login: userinfo.map(login).transpose()? })
}

fn login(userinfo: &str) -> Result<Login, String> {
    let part = |text: &str| {
        let text = decoded(text)?;
        if text.is_empty() {
            return Err("a login is a user and a password, or a token; write `user:password@` or `token@`".into());
        }
        login_problem(&text).map_or(Ok(text), Err)
    };
    Ok(match userinfo.split_once(':') {
        Some((user, password)) => Login::Password(part(user)?, part(password)?),
        None => Login::Token(part(userinfo)?),
    })
}

/// Says what is wrong with a user, a password or a token.
pub(super) fn login_problem(text: &str) -> Option<String> {
    (text.len() > MOST_LOGIN_BYTES || text.chars().any(char::is_control)).then(|| {
        format!("a user, password or token has over {MOST_LOGIN_BYTES} bytes or a control character; give another")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match parse(url) {
            Ok(_) => panic!("`{url}` was taken"),
            Err(problem) => problem,
        }
    }

    fn hosts(address: &Address) -> Vec<String> {
        address.endpoints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_url_names_hosts_tls_and_login() {
        let address = parse("tls://al%40ice:s%3Aecret@one,two:14222,[::1]:3/").unwrap();
        assert_eq!(hosts(&address), ["one:4222", "two:14222", "[::1]:3"]);
        assert!(address.tls);
        assert!(address.login == Some(Login::Password("al@ice".to_owned(), "s:ecret".to_owned())));
        let address = parse("nats://localhost").unwrap();
        assert!(!address.tls && address.login.is_none());
        let address = parse("nats://to%2Fken@one:1,nats://two:2").unwrap();
        assert_eq!(hosts(&address), ["one:1", "two:2"]);
        assert!(address.login == Some(Login::Token("to/ken".to_owned())));
    }

    #[test]
    fn a_bad_url_is_refused_with_the_remedy_and_without_its_secrets() {
        for (url, word) in [
            ("", "scheme"),
            ("localhost:4222", "scheme"),
            ("redis://h", "scheme"),
            ("ws://h", "WebSocket"),
            ("nats:h", "`//`"),
            ("nats://", "host"),
            ("nats://a,,b", "host"),
            ("nats://a,tls://b", "scheme of its own"),
            ("nats://h:0", "port"),
            ("nats://h:65536", "port"),
            ("nats://user:hunter2", "before an `@`"),
            ("nats://:hunter2@h", "user:password@"),
            ("nats://hunter2:@h", "user:password@"),
            ("nats://@h", "`token@`"),
            ("nats://user:hun/ter2@h", "percent-encode"),
            ("nats://user:hunter2%0@h", "`%25`"),
            ("nats://user:hunter2%00@h", "control character"),
            ("nats://h/subject", "path"),
            ("nats://h?verbose=1", "query"),
            ("nats://::1", "brackets"),
            ("nats://[::1", "closing"),
            ("nats://a b", "name"),
        ] {
            let problem = refusal(url);
            assert!(problem.contains(word), "`{url}`: {problem}");
            assert!(!problem.contains("hunter2") && !problem.contains("ter2"), "{problem}");
        }
        assert!(refusal(&format!("nats://{}", vec!["h"; 17].join(","))).contains("more than 16"));
        assert!(refusal(&format!("nats://u:{}@h", "p".repeat(1_025))).contains("1024"));
    }
}
