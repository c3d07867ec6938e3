//! Errors of TLS settings.

use std::path::PathBuf;

use rustls::pki_types::pem;

/// A server cannot have TLS with these certificates and keys.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of certificates or keys cannot be read, or is not PEM.
    #[error("cannot read {what} from {}: {source}", path.display())]
    Read {
        /// What the file should have.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: pem::Error,
    },
    /// A file has no certificate.
    #[error("{} has no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate of an authority is not well-formed.
    #[error("{} has a certificate that cannot be used: {source}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why the certificate cannot be used.
        source: rustls::Error,
    },
    /// The certificate and the key do not go together, or cannot be used.
    #[error("the certificate of {} cannot be used with the key of {}: {source}", chain.display(), key.display())]
    Pair {
        /// The file of the certificate.
        chain: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why they cannot be used.
        source: rustls::Error,
    },
    /// Certificates of clients cannot be checked.
    #[error("certificates of clients cannot be checked: {0}")]
    Clients(String),
}
