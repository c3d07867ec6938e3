//! Options of `-o`, and TLS, under the names of memcached.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::ensure;
use psp_program::{AuthClients, OldestVersion, TlsFiles};

use crate::config::Config;
use crate::unsupported;

/// Whether clients need certificates if nothing says so, as in memcached.
pub(crate) const AUTH_CLIENTS: AuthClients = AuthClients::No;

/// Flags about TLS, and options.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct ExtendedFlags {
    /// Serve TLS at the TCP port, and no plain connections.
    #[arg(long, short = 'Z')]
    enable_ssl: bool,
    /// Options: idle_timeout=SECONDS; of TLS ssl_chain_cert=FILE, ssl_key=FILE, ssl_ca_cert=FILE (PEM),
    /// ssl_verify_mode=0 (clients need no certificate), 1 (may have one), 2 or 3 (need one) [default: 0],
    /// ssl_min_version=tlsv1.2 or tlsv1.3 [default: tlsv1.2].
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_delimiter = ',')]
    extended: Vec<ExtendedOption>,
}

/// One option.
#[derive(Debug, Clone, PartialEq)]
enum ExtendedOption {
    Tls(TlsOption),
    IdleTimeout { seconds: u64 },
    WithoutEffect(String),
}

#[derive(Debug, Clone, PartialEq)]
enum TlsOption {
    ChainCert(PathBuf),
    Key(PathBuf),
    CaCert(PathBuf),
    VerifyMode(AuthClients),
    MinVersion(OldestVersion),
}

impl FromStr for ExtendedOption {
    type Err = String;

    fn from_str(option: &str) -> Result<Self, String> {
        match option.split_once('=') {
            Some(("ssl_chain_cert", path)) => Ok(Self::Tls(TlsOption::ChainCert(path.into()))),
            Some(("ssl_key", path)) => Ok(Self::Tls(TlsOption::Key(path.into()))),
            Some(("ssl_ca_cert", path)) => Ok(Self::Tls(TlsOption::CaCert(path.into()))),
            Some(("ssl_verify_mode", mode)) => match mode {
                "0" => Ok(Self::Tls(TlsOption::VerifyMode(AuthClients::No))),
                "1" => Ok(Self::Tls(TlsOption::VerifyMode(AuthClients::Optional))),
                "2" | "3" => Ok(Self::Tls(TlsOption::VerifyMode(AuthClients::Yes))),
                _ => Err(format!("ssl_verify_mode is {mode}, it must be between 0 and 3")),
            },
            Some(("ssl_min_version", version)) => match version {
                // The server has no older one than TLS 1.2.
                "tlsv1.0" | "tlsv1.1" | "tlsv1.2" => Ok(Self::Tls(TlsOption::MinVersion(OldestVersion::Tls12))),
                "tlsv1.3" => Ok(Self::Tls(TlsOption::MinVersion(OldestVersion::Tls13))),
                _ => Err(format!("ssl_min_version is {version}, it must be tlsv1.0, tlsv1.1, tlsv1.2 or tlsv1.3")),
            },
            Some(("idle_timeout", seconds)) => match seconds.parse() {
                Ok(seconds) => Ok(Self::IdleTimeout { seconds }),
                Err(error) => Err(format!("idle_timeout is {seconds}: {error}")),
            },
            _ => {
                let name = option.split('=').next().unwrap_or_default();
                match unsupported::is_option(name) {
                    true => Ok(Self::WithoutEffect(name.to_owned())),
                    false => Err(format!("unknown option '{option}'")),
                }
            }
        }
    }
}

impl ExtendedFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, config: &mut Config) -> anyhow::Result<()> {
        let tls = &mut config.tls;
        if self.enable_ssl {
            tls.get_or_insert_default();
        }
        for option in self.extended {
            match option {
                ExtendedOption::Tls(option) => {
                    ensure!(tls.is_some(), "options of TLS (-o ssl_..) need -Z");
                    option.apply_to(tls.get_or_insert_default());
                }
                ExtendedOption::IdleTimeout { seconds } => config.server.idle_timeout_s = seconds,
                ExtendedOption::WithoutEffect(name) => {
                    config.without_effect.push(format!("-o {name}"));
                }
            }
        }
        // memcached asks for certificates then, which it cannot check.
        let asks_in_vain =
            |files: &&mut TlsFiles| files.ca_cert_file.is_none() && files.auth_clients == Some(AuthClients::Optional);
        if let Some(files) = tls.as_mut().filter(asks_in_vain) {
            files.auth_clients = Some(AuthClients::No);
            let option = "-o ssl_verify_mode=1 without ssl_ca_cert";
            config.without_effect.push(option.to_owned());
        }
        Ok(())
    }
}

impl TlsOption {
    fn apply_to(self, files: &mut TlsFiles) {
        match self {
            Self::ChainCert(path) => files.cert_file = Some(path),
            Self::Key(path) => files.key_file = Some(path),
            Self::CaCert(path) => files.ca_cert_file = Some(path),
            Self::VerifyMode(mode) => files.auth_clients = Some(mode),
            Self::MinVersion(version) => files.oldest_version = Some(version),
        }
    }
}
