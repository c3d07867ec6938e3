//! Settings of TLS, under the names of memcached.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::ensure;
use psp_program::{AuthClients, TlsFiles};

/// Whether clients need certificates if nothing says so, as in memcached.
pub(crate) const AUTH_CLIENTS: AuthClients = AuthClients::No;

/// Flags about TLS.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TlsFlags {
    /// Serve TLS at the TCP port, and no plain connections.
    #[arg(long, short = 'Z')]
    enable_ssl: bool,
    /// Options of TLS: ssl_chain_cert=FILE, ssl_key=FILE, ssl_ca_cert=FILE (PEM),
    /// ssl_verify_mode=0 (clients need no certificate), 1 (may have one), 2 or 3 (need one) [default: 0].
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_delimiter = ',')]
    extended: Vec<SslOption>,
}

/// One option of TLS.
#[derive(Debug, Clone)]
enum SslOption {
    ChainCert(PathBuf),
    Key(PathBuf),
    CaCert(PathBuf),
    VerifyMode(AuthClients),
}

impl FromStr for SslOption {
    type Err = String;

    fn from_str(option: &str) -> Result<Self, String> {
        match option.split_once('=') {
            Some(("ssl_chain_cert", path)) => Ok(Self::ChainCert(path.into())),
            Some(("ssl_key", path)) => Ok(Self::Key(path.into())),
            Some(("ssl_ca_cert", path)) => Ok(Self::CaCert(path.into())),
            Some(("ssl_verify_mode", mode)) => match mode {
                "0" => Ok(Self::VerifyMode(AuthClients::No)),
                "1" => Ok(Self::VerifyMode(AuthClients::Optional)),
                "2" | "3" => Ok(Self::VerifyMode(AuthClients::Yes)),
                _ => Err(format!(
                    "ssl_verify_mode is {mode}, it must be between 0 and 3"
                )),
            },
            _ => Err(format!("unknown option '{option}'")),
        }
    }
}

impl TlsFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, tls: &mut Option<TlsFiles>) -> anyhow::Result<()> {
        if self.enable_ssl {
            tls.get_or_insert_default();
        }
        for option in self.extended {
            ensure!(tls.is_some(), "options of TLS (-o ssl_..) need -Z");
            let files = tls.get_or_insert_default();
            match option {
                SslOption::ChainCert(path) => files.cert_file = Some(path),
                SslOption::Key(path) => files.key_file = Some(path),
                SslOption::CaCert(path) => files.ca_cert_file = Some(path),
                SslOption::VerifyMode(mode) => files.auth_clients = Some(mode),
            }
        }
        Ok(())
    }
}
