//! The certificate and the key of an admin port that speaks TLS.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_rustls::TlsAcceptor;

use crate::error::TlsError;
use crate::transport::tls::{ClientCertificates, TlsConfig};

/// The files are read again after this time, when a connection comes: they may have been renewed.
const READ_EVERY: Duration = Duration::from_secs(60);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    config: TlsConfig,
    read_at: Instant,
}

impl Certificates {
    /// Reads a certificate chain and its key, both in PEM.
    ///
    /// # Errors
    /// A file cannot be read, or what it has cannot be used.
    pub(super) fn read(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            config: TlsConfig::from_pem_files(chain, key, &ClientCertificates::NotAsked)?,
            chain: chain.to_owned(),
            key: key.to_owned(),
            read_at: Instant::now(),
        })
    }

    /// For the next connection. The certificate that was read last stays if its files are no longer right.
    pub(super) fn acceptor(&mut self) -> TlsAcceptor {
        if self.read_at.elapsed() > READ_EVERY {
            self.read_at = Instant::now();
            match Self::read(&self.chain, &self.key) {
                Ok(renewed) => self.config = renewed.config,
                Err(error) => tracing::warn!(%error, "the admin port keeps its certificate"),
            }
        }
        TlsAcceptor::from(self.config.in_force())
    }
}
