//! Where a cluster is and who asks: the URL, taken apart.

use super::super::authority::{HostPort, decoded, split};

/// A URL's parts. Its texts may be credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) endpoints: Vec<HostPort>,
    pub(super) tls: bool,
    /// User and password.
    pub(super) login: Option<(String, String)>,
}

const FORMS: &str = "write `kafka://[user:password@]host[:port][,host2[:port]]`, or `kafka+ssl://..` for TLS";
const DEFAULT_PORT: u16 = 9_092;
/// A client needs one that answers to find the others.
const MOST_ENDPOINTS: usize = 64;
const MOST_LOGIN_BYTES: usize = 1_024;

/// Takes a URL apart. An error never quotes what could be a credential.
pub(super) fn parse(url: &str) -> Result<Address, String> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("the URL has no scheme; {FORMS}"))?;
    let tls = match scheme {
        "kafka" => false,
        "kafka+ssl" | "kafkas" => true,
        _ => return Err(format!("the URL's scheme isn't one of Kafka; {FORMS}")),
    };
    let (userinfo, rest) = split(rest, FORMS)?;
    if rest.contains(['?', '#']) {
        return Err("a query (`?..`) or fragment (`#..`) means nothing here; leave it out".into());
    }
    let hosts = rest.strip_suffix('/').unwrap_or(rest);
    if hosts.contains('/') {
        return Err("a path means nothing here: streams have their own addresses; leave it out".into());
    }
    let endpoints =
        hosts.split(',').map(|host| HostPort::parse(host, DEFAULT_PORT, FORMS)).collect::<Result<Vec<_>, _>>()?;
    if endpoints.len() > MOST_ENDPOINTS {
        return Err(format!("the URL has more than {MOST_ENDPOINTS} hosts; name a few, which know the others"));
    }
    Ok(Address { endpoints, tls, login: userinfo.map(login).transpose()? })
}

fn login(userinfo: &str) -> Result<(String, String), String> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() || password.is_empty() {
        return Err("a login is a user and a password; write `user:password@`".into());
    }
    if [&user, &password].iter().any(|text| text.len() > MOST_LOGIN_BYTES || text.chars().any(char::is_control)) {
        return Err(format!("user or password have over {MOST_LOGIN_BYTES} bytes or a control character; give others"));
    }
    Ok((user, password))
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

    #[test]
    fn a_url_names_hosts_tls_and_login() {
        let address = parse("kafka+ssl://al%40ice:s%3Aecret@one,two:19092,[::1]:3/").unwrap();
        let endpoints: Vec<_> = address.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["one:9092", "two:19092", "[::1]:3"]);
        assert!(address.tls);
        assert_eq!(address.login, Some(("al@ice".to_owned(), "s:ecret".to_owned())));
        let address = parse("kafka://localhost").unwrap();
        assert!(!address.tls && address.login.is_none());
        assert!(parse("kafkas://h").unwrap().tls);
    }

    #[test]
    fn a_bad_url_is_refused_with_the_remedy_and_without_its_secrets() {
        for (url, word) in [
            ("", "scheme"),
            ("localhost:9092", "scheme"),
            ("redis://h", "scheme"),
            ("kafka:h", "`//`"),
            ("kafka://", "host"),
            ("kafka://a,,b", "host"),
            ("kafka://h:0", "port"),
            ("kafka://h:65536", "port"),
            ("kafka://user:hunter2", "before an `@`"),
            ("kafka://user@h", "user:password@"),
            ("kafka://:hunter2@h", "user:password@"),
            ("kafka://user:hun/ter2@h", "percent-encode"),
            ("kafka://user:hunter2%0@h", "`%25`"),
            ("kafka://user:hunter2%00@h", "control character"),
            ("kafka://h/topic", "path"),
            ("kafka://h?acks=0", "query"),
            ("kafka://::1", "brackets"),
            ("kafka://[::1", "closing"),
            ("kafka://a b", "name"),
        ] {
            let problem = refusal(url);
            assert!(problem.contains(word), "`{url}`: {problem}");
            assert!(!problem.contains("hunter2") && !problem.contains("ter2"), "{problem}");
        }
        assert!(refusal(&format!("kafka://{}", vec!["h"; 65].join(","))).contains("more than 64"));
        assert!(refusal(&format!("kafka://u:{}@h", "p".repeat(1_025))).contains("1024"));
    }
}
