//! How connections to a target are encrypted: `rediss://`, `https://`, `SCHEME+tls://`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Which servers are trusted, and what the client shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A PEM file of the authorities that may have issued the server's certificate. `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM files of a certificate and its private key for the server.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate is for, if it is not the URL's.
    pub server_name: Option<String>,
    /// Any certificate will do.
    pub insecure: bool,
}

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has not what it should.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file has no certificate that can be used.
    #[error("{} has no certificate that can be used", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The system has no authorities.
    #[error("the system has no certificates of authorities; give --ca FILE, or --insecure")]
    NoAuthorities,
    /// The name can be in no certificate.
    #[error("`{name}` can be in no certificate; --server-name gives another name")]
    Name {
        /// The name.
        name: String,
        /// Why.
        source: InvalidDnsNameError,
    },
    /// TLS refuses the certificate or its key.
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

/// The TLS of a target's connections.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Connections to `host`, with or without a port, which speak `alpn` if that is not empty.
    pub(super) fn new(options: &TlsOptions, host: &str, alpn: &[&str]) -> Result<Self, TlsError> {
        let name = options.server_name.as_deref().unwrap_or_else(|| without_port(host)).to_owned();
        let server_name = ServerName::try_from(name.clone());
        let server_name = server_name.map_err(|source| TlsError::Name { name, source })?;
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = match options.insecure {
            true => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
            false => builder.with_root_certificates(authorities(options.authorities.as_deref())?),
        };
        let mut config = match &options.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let private_key = PrivateKeyDer::from_pem_file(key);
                let private_key = private_key.map_err(|source| TlsError::Read { path: key.clone(), source })?;
                builder.with_client_auth_cert(certificates(certificate)?, private_key)?
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Self { config: Arc::new(config), name: server_name })
    }

    /// The session of a new connection.
    pub(crate) fn session(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for Tls {}

/// The host without its port and without the brackets of an IPv6 address.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let certificates = match file {
        Some(file) => certificates(file)?,
        // Some of the system's may be of no use.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates);
    match (added, file) {
        (0, Some(file)) => Err(TlsError::NoCertificate { path: file.to_owned() }),
        (0, None) => Err(TlsError::NoAuthorities),
        _ => Ok(store),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = || file.to_owned();
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|source| TlsError::Read { path: path(), source })?;
    match certificates.is_empty() {
        true => Err(TlsError::NoCertificate { path: path() }),
        false => Ok(certificates),
    }
}

/// Trusts any server that has the key of its certificate.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_have_no_port() {
        for (host, name) in [
            ("a.b", "a.b"),
            ("a.b:7", "a.b"),
            ("[::1]:7", "::1"),
            ("[::1]", "::1"),
            ("127.0.0.1:1", "127.0.0.1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
