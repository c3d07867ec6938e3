//! Certificates for tests of TLS: an authority, and what it issued, as PEM files in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// A certificate and its key, as PEM files.
#[derive(Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An authority, and what it issued. The files are removed with it.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// A server's certificate, for `localhost` and the loopback addresses.
    pub server: Pair,
    /// A client's certificate.
    pub client: Pair,
    _folder: TempDir,
}

impl Certificates {
    /// Makes an authority, and certificates that it issued.
    ///
    /// # Panics
    /// The files cannot be written.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "every authority is another")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = KeyPair::generate().expect("random numbers");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let certificate = params.self_signed(&key).expect("valid parameters");
        let authority = folder.path().join("authority.pem");
        fs::write(&authority, certificate.pem()).expect("the folder takes files");
        let issuer = Issuer::new(params, key);
        let issue = |name, subjects| issue(folder.path(), name, subjects, &issuer);
        Self {
            authority,
            server: issue("server", &["localhost", "127.0.0.1", "::1"]),
            client: issue("client", &["client.test"]),
            _folder: folder,
        }
    }
}

impl Certificates {
    /// The arguments of a client's script: the authority, and the client's certificate and key.
    #[must_use]
    pub fn for_client(&self) -> [&Path; 3] {
        [&self.authority, &self.client.certificate, &self.client.key]
    }
}

fn issue(folder: &Path, name: &str, subjects: &[&str], issuer: &Issuer<'_, KeyPair>) -> Pair {
    let subjects: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(subjects).expect("names and addresses");
    params.distinguished_name.push(DnType::CommonName, name);
    let private = KeyPair::generate().expect("random numbers");
    let issued = params.signed_by(&private, issuer).expect("valid parameters");
    let pair = Pair {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    fs::write(&pair.certificate, issued.pem()).expect("the folder takes files");
    fs::write(&pair.key, private.serialize_pem()).expect("the folder takes files");
    pair
}
