//! What a backend's value holds, and the TLS that comes of it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::url::Address;

/// How to reach a server and how to log in. What is secret in it has no `Debug`.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) authority: Option<Vec<u8>>,
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Made at the first connection: the system's certificates are files.
    connector: Arc<OnceLock<Result<TlsConnector, String>>>,
}

impl Settings {
    pub(super) fn new(address: Address) -> Self {
        Self { address, authority: None, identity: None, connector: Arc::default() }
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

    /// Everything that can be known to be wrong without I/O.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.address.tls {
            if self.authority.is_some() || self.identity.is_some() {
                problems.push("certificates are given but the URL has no TLS; write `rediss://`".to_owned());
            }
            return problems;
        }
        if self.authority.is_none() {
            return problems;
        }
        if let Err(problem) = self.connector() {
            problems.push(problem);
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
}

/// Without user, password and key.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.address.endpoint)
            .field("tls", &self.address.tls)
            .field("database", &self.address.database)
            .finish_non_exhaustive()
    }
}
