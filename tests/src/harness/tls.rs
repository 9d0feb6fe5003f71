use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Fresh certificates, as PEM files in a folder: an authority, and a server's and a client's that it signed.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The server's certificate, for `localhost` and 127.0.0.1.
    pub server_certificate: PathBuf,
    /// The server's private key.
    pub server_key: PathBuf,
    /// The client's certificate.
    pub client_certificate: PathBuf,
    /// The client's private key.
    pub client_key: PathBuf,
}

impl Tls {
    /// Makes the certificates and writes them into `folder`.
    #[must_use]
    pub fn generate(folder: &Path) -> Self {
        let authority = authority();
        let (server_certificate, server_key) = signed(&authority, "server", ExtendedKeyUsagePurpose::ServerAuth);
        let (client_certificate, client_key) = signed(&authority, "client", ExtendedKeyUsagePurpose::ClientAuth);
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("can't write `{}`: {error}", path.display()));
            path
        };
        Self {
            ca: write("ca.pem", &authority.pem()),
            server_certificate: write("server.pem", &server_certificate),
            server_key: write("server.key", &server_key),
            client_certificate: write("client.pem", &client_certificate),
            client_key: write("client.key", &client_key),
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "tidings test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, key()).expect("the parameters are complete")
}

fn signed(
    authority: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    purpose: ExtendedKeyUsagePurpose,
) -> (String, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("both names are valid");
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    let key = key();
    let certificate = params.signed_by(&key, authority).expect("the parameters are complete");
    (certificate.pem(), key.serialize_pem())
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the machine has randomness")
}
