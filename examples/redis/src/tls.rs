//! Settings of TLS, under the names of redis-server.

use std::path::PathBuf;

use psp_program::{AuthClients, OldestVersion, TlsFiles};

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
    /// Versions of TLS, as in Redis: "TLSv1.2 TLSv1.3", or TLSv1.3 alone [default: both].
    #[arg(long, value_name = "VERSIONS", value_parser = oldest_version)]
    tls_protocols: Option<OldestVersion>,
}

/// The oldest of the versions that Redis' `tls-protocols` names.
fn oldest_version(names: &str) -> Result<OldestVersion, String> {
    let mut oldest = Err(format!("'{names}' has to name TLSv1.3"));
    let mut has_older = false;
    for name in names.split_whitespace() {
        match name.to_ascii_lowercase().as_str() {
            "tlsv1.3" => oldest = Ok(OldestVersion::Tls13),
            "tlsv1.2" => has_older = true,
            _ => return Err(format!("'{name}' is not one of TLSv1.2, TLSv1.3")),
        }
    }
    oldest.map(|oldest| match has_older {
        true => OldestVersion::Tls12,
        false => oldest,
    })
}

impl TlsFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, port: &mut Option<u16>, files: &mut TlsFiles) {
        let given = TlsFiles {
            cert_file: self.tls_cert_file,
            key_file: self.tls_key_file,
            ca_cert_file: self.tls_ca_cert_file,
            auth_clients: self.tls_auth_clients,
            oldest_version: self.tls_protocols,
        };
        *port = self.tls_port.or(*port);
        files.cert_file = given.cert_file.or(files.cert_file.take());
        files.key_file = given.key_file.or(files.key_file.take());
        files.ca_cert_file = given.ca_cert_file.or(files.ca_cert_file.take());
        files.auth_clients = given.auth_clients.or(files.auth_clients);
        files.oldest_version = given.oldest_version.or(files.oldest_version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_as_in_redis() {
        use OldestVersion::{Tls12, Tls13};

        for (names, oldest) in [("TLSv1.2 TLSv1.3", Tls12), ("tlsv1.3 tlsv1.2", Tls12), ("TLSv1.3", Tls13)] {
            assert_eq!(oldest_version(names), Ok(oldest));
        }
        for (names, told) in [
            ("", "has to name TLSv1.3"),
            ("TLSv1.2", "has to name TLSv1.3"),
            ("TLSv1.1 TLSv1.3", "'TLSv1.1' is not one of"),
        ] {
            let refusal = oldest_version(names).unwrap_err();
            assert!(refusal.contains(told), "{refusal}");
        }
    }
}
