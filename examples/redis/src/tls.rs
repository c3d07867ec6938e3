//! Settings of TLS, under the names of redis-server.

use std::path::PathBuf;

use psp_program::{AuthClients, TlsFiles};

/// Whether clients need certificates if nothing says so, as in Redis.
pub(crate) const AUTH_CLIENTS: AuthClients = AuthClients::Yes;

/// Flags about TLS.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsFlags {
    /// TCP port for TLS; 0 for any free one [default: none]. Beside it, --port 0 is no plain port, as in Redis.
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,
    /// The server's certificate chain (PEM).
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// The key of the server's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// Certificates of the authorities of clients (PEM).
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients need a certificate: yes, no or optional [default: yes].
    #[arg(long, value_name = "CHOICE")]
    tls_auth_clients: Option<AuthClients>,
}

impl TlsFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, port: &mut Option<u16>, files: &mut TlsFiles) {
        let given = TlsFiles {
            cert_file: self.tls_cert_file,
            key_file: self.tls_key_file,
            ca_cert_file: self.tls_ca_cert_file,
            auth_clients: self.tls_auth_clients,
        };
        *port = self.tls_port.or(*port);
        files.cert_file = given.cert_file.or(files.cert_file.take());
        files.key_file = given.key_file.or(files.key_file.take());
        files.ca_cert_file = given.ca_cert_file.or(files.ca_cert_file.take());
        files.auth_clients = given.auth_clients.or(files.auth_clients);
    }
}
