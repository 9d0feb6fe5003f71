//! What a backend's value holds, and the TLS and the greeting that come of it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_nats::{ConnectInfo, Protocol, ServerInfo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::credentials::Credentials;
use super::url::{Address, Login, login_problem};

/// A subject of 3,500 bytes and that of the replies fit one line of the protocol.
const MOST_INBOX_BYTES: usize = 128;

/// How to reach the servers and how to log in. What is secret in it has no `Debug`.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) tls_first: bool,
    authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<String>,
    inbox: Option<String>,
    credentials: Vec<Result<Credentials, &'static str>>,
    /// Made at the first connection: the system's certificates are files.
    connector: Arc<OnceLock<Result<TlsConnector, String>>>,
}

impl Settings {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            tls_first: false,
            authority: None,
            identity: None,
            token: None,
            inbox: None,
            credentials: Vec::new(),
            connector: Arc::default(),
        }
    }

    /// Replaces the authorities' certificates.
    pub(super) fn set_authority(&mut self, pem: Vec<u8>) {
        self.authority = Some(pem);
        self.connector = Arc::default();
    }

    /// Replaces the client's own certificate.
    pub(super) fn set_identity(&mut self, chain: Vec<u8>, key: Vec<u8>) {
        self.identity = Some((chain, key));
        self.connector = Arc::default();
    }

    pub(super) fn set_token(&mut self, token: String) {
        self.token = Some(token);
    }

    pub(super) fn set_inbox(&mut self, prefix: String) {
        self.inbox = Some(prefix);
    }

    /// What the subjects of replies begin with.
    pub(super) fn inbox(&self) -> &str {
        self.inbox.as_deref().unwrap_or("_INBOX")
    }

    pub(super) fn set_seed(&mut self, seed: &str) {
        self.credentials.push(Credentials::seed(seed));
    }

    pub(super) fn set_credentials(&mut self, file: &str) {
        self.credentials.push(Credentials::file(file));
    }

    /// Everything that can be known to be wrong without I/O.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> =
            self.credentials.iter().filter_map(|given| given.as_ref().err()).map(|text| (*text).to_owned()).collect();
        let ways = usize::from(self.address.login.is_some()) + usize::from(self.token.is_some());
        if ways + self.credentials.len() > 1 {
            problems.push(
                "several ways to log in are given; leave one of the URL's user or token, `token`, `nkey` and `credentials`"
                    .to_owned(),
            );
        }
        if let Some(token) = &self.token {
            if token.is_empty() {
                problems.push("the token is empty; give the server's, or none".to_owned());
            }
            problems.extend(login_problem(token));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_token = |token: &str| !token.is_empty() && token.bytes().all(plain);
        if self.inbox().len() > MOST_INBOX_BYTES || !self.inbox().split('.').all(is_token) {
            problems.push(format!(
                "`inbox_prefix` isn't tokens of letters, digits, `_` and `-` with dots between, at most {MOST_INBOX_BYTES} bytes"
            ));
        }
        if self.address.tls {
            if (self.authority.is_some() || self.identity.is_some())
                && let Err(problem) = self.connector()
            {
                problems.push(problem);
            }
        } else if self.authority.is_some() || self.identity.is_some() || self.tls_first {
            problems.push("certificates or `tls_first` are given but the URL has no TLS; write `tls://`".to_owned());
        }
        problems
    }

    /// The TLS that verifies the server's certificate and name.
    pub(super) fn connector(&self) -> Result<TlsConnector, String> {
        self.connector.get_or_init(|| self.make_connector()).clone()
    }

    fn make_connector(&self) -> Result<TlsConnector, String> {
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|_| "the authority's certificate isn't PEM".to_owned())?;
                    roots.add(certificate).map_err(|_| "the authority's certificate can't be read".to_owned())?;
                }
            }
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        if roots.is_empty() {
            return Err("there is no authority to verify the server by; give its certificate, as PEM".into());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| "TLS can't be set up".to_owned())?
            .with_root_certificates(roots);
        let config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
                    .collect::<Result<_, _>>()
                    .map_err(|_| "the client's certificate isn't PEM".to_owned())?;
                if chain.is_empty() {
                    return Err("the client's certificate holds none; give it as PEM".into());
                }
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| "the client's key isn't a private key as PEM".to_owned())?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|_| "the client's key can't be used with its certificate".to_owned())?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// What the client says of itself when it connects.
    pub(super) fn greeting(&self, info: &ServerInfo, name: &str) -> ConnectInfo {
        let mut greeting = ConnectInfo {
            verbose: false,
            pedantic: false,
            user_jwt: None,
            nkey: None,
            signature: None,
            name: Some(name.to_owned()),
            echo: true,
            lang: "rust".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: Protocol::Dynamic,
            tls_required: self.address.tls,
            user: None,
            pass: None,
            auth_token: self.token.clone(),
            headers: true,
            no_responders: true,
        };
        match self.address.login.clone() {
            Some(Login::Password(user, password)) => {
                greeting.user = Some(user);
                greeting.pass = Some(password);
            }
            Some(Login::Token(token)) => greeting.auth_token = Some(token),
            None => {}
        }
        if let Some(Ok(credentials)) = self.credentials.first() {
            (greeting.user_jwt, greeting.nkey) = credentials.name();
            greeting.signature = credentials.sign(&info.nonce);
        }
        greeting
    }
}

/// Without user, password, token and keys.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoints", &self.address.endpoints)
            .field("tls", &self.address.tls)
            .finish_non_exhaustive()
    }
}
