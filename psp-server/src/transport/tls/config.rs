//! Certificates, keys, and which clients are let in.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::session::TlsSession;
use crate::error::TlsError;

/// Which clients a server lets in by their certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Clients are not asked for certificates.
    #[default]
    NotAsked,
    /// Clients may have a certificate of an authority in this PEM file. Clients with another are refused.
    Optional(PathBuf),
    /// Clients must have a certificate of an authority in this PEM file.
    Required(PathBuf),
}

/// The oldest version of TLS that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersion {
    /// TLS 1.2, and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

impl TlsVersion {
    fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::Tls12 => &ALL,
            Self::Tls13 => &ALL[..1],
        }
    }
}

/// What a server needs for TLS. Clones share it: [`replace`](Self::replace) changes all of them.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    in_force: Arc<RwLock<Arc<ServerConfig>>>,
}

/// TLS as an application has configured it, with protocols of ALPN or certificates by the client's SNI.
impl From<Arc<ServerConfig>> for TlsConfig {
    fn from(config: Arc<ServerConfig>) -> Self {
        let in_force = Arc::new(RwLock::new(config));
        Self { in_force }
    }
}

impl TlsConfig {
    /// TLS 1.2 and 1.3 with a certificate chain, the server's own certificate first, and its key, each in a PEM
    /// file. Sessions are resumed as rustls does by default.
    ///
    /// # Errors
    /// A file cannot be read, or what it has cannot be used.
    pub fn from_pem_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        clients: &ClientCertificates,
    ) -> Result<Self, TlsError> {
        Self::since(TlsVersion::default(), chain, key, clients)
    }

    /// The same with `oldest` as the oldest version of TLS.
    ///
    /// # Errors
    /// Those of [`from_pem_files`](Self::from_pem_files).
    pub fn since(
        oldest: TlsVersion,
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        clients: &ClientCertificates,
    ) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let pair = |source| TlsError::Pair { chain: chain.to_owned(), key: key.to_owned(), source };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(oldest.and_later())
            .map_err(pair)?;
        let (authorities, optional) = match clients {
            ClientCertificates::NotAsked => (None, true),
            ClientCertificates::Optional(path) => (Some(path), true),
            ClientCertificates::Required(path) => (Some(path), false),
        };
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities_in(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
                let verifier = match optional {
                    true => verifier.allow_unauthenticated(),
                    false => verifier,
                };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::Clients(error.to_string()))?)
            }
        };
        let certificates = certificates_in(chain)?;
        let private_key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Read {
            what: "a private key",
            path: key.to_owned(),
            source,
        })?;
        let config = if is_version_1(&certificates[0]) {
            tracing::warn!(
                "the certificate of {} is of version 1 of X.509: many clients refuse it, and whether it belongs to the \
                 key is not checked. Certificates with extensions are of version 3",
                chain.display()
            );
            let key = provider.key_provider.load_private_key(private_key);
            let certified = CertifiedKey::new(certificates, key.map_err(pair)?);
            builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        } else {
            let config = builder.with_single_cert(certificates, private_key);
            config.map_err(pair)?
        };
        Ok(Arc::new(config).into())
    }

    /// Puts `other` in the place of this configuration, for connections that are accepted from now on.
    pub fn replace(&self, other: &Self) {
        let next = other.in_force();
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// What holds for the next session.
    pub(crate) fn in_force(&self) -> Arc<ServerConfig> {
        let in_force = self.in_force.read();
        in_force.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A session for a connection that was accepted at `now_ns`. `None` if the configuration cannot be used.
    pub(crate) fn session(&self, now_ns: u64) -> Option<Box<TlsSession>> {
        let session = TlsSession::new(self.in_force(), now_ns);
        session.map(Box::new).ok()
    }
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |source| TlsError::Read { what: "certificates", path: path.to_owned(), source };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(read)?;
    match certificates.is_empty() {
        true => Err(TlsError::NoCertificate(path.to_owned())),
        false => Ok(certificates),
    }
}

/// Whether a certificate is of version 1 of X.509 (RFC 5280, 4.1), which rustls cannot read. It has no version, so its
/// first field is the serial number.
fn is_version_1(certificate: &[u8]) -> bool {
    const INTEGER: u8 = 0x02;
    let first_field = content_of_sequence(certificate).and_then(content_of_sequence);
    first_field.and_then(<[u8]>::first) == Some(&INTEGER)
}

/// What is behind the tag and the length of a sequence in DER.
fn content_of_sequence(bytes: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const LONG_LENGTH: u8 = 0x80;
    let [SEQUENCE, length, content @ ..] = bytes else {
        return None;
    };
    match length & LONG_LENGTH {
        0 => Some(content),
        _ => content.get(usize::from(length ^ LONG_LENGTH)..),
    }
}

fn authorities_in(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}
