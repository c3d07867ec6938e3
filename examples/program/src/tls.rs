//! TLS of a program: its certificates, and which clients it lets in.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "tls")]
use anyhow::Context as _;
use psp_server::ServerBuilder;
use serde::{Deserialize, Serialize};

/// Why a program has no TLS.
#[cfg(not(feature = "tls"))]
const WITHOUT_TLS: &str = "this program was built without the feature `tls`: build it with `--features tls`";

/// Which clients are let in by their certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthClients {
    /// Clients must have a certificate of the authority.
    Yes,
    /// Clients are not asked for certificates.
    No,
    /// Clients may have a certificate of the authority, and no other.
    Optional,
}

impl AuthClients {
    /// How flags and files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Optional => "optional",
        }
    }
}

impl FromStr for AuthClients {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Yes, Self::No, Self::Optional];
        let named = all.into_iter().find(|choice| choice.name() == name);
        named.ok_or_else(|| format!("'{name}' is not one of yes, no, optional"))
    }
}

/// The files of certificates and keys, and flags about them as in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsFiles {
    /// The server's certificate chain (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "tls-cert-file", value_name = "FILE")]
    pub cert_file: Option<PathBuf>,
    /// The key of the server's certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "tls-key-file", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Certificates of the authorities of clients (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "tls-ca-cert-file", value_name = "FILE")]
    pub ca_cert_file: Option<PathBuf>,
    /// Whether clients need a certificate: yes, no or optional [default: yes].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "tls-auth-clients", value_name = "CHOICE")]
    pub auth_clients: Option<AuthClients>,
    /// Versions of TLS, as in Redis: "TLSv1.2 TLSv1.3", or TLSv1.3 alone [default: both].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long = "tls-protocols", value_name = "VERSIONS", value_parser = oldest_version)]
    pub oldest_version: Option<OldestVersion>,
}

/// The oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OldestVersion {
    /// TLS 1.2, and 1.3.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 alone.
    #[serde(rename = "1.3")]
    Tls13,
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

/// Certificates and keys that a server can listen with.
#[derive(Debug, Clone)]
pub struct Tls {
    #[cfg(feature = "tls")]
    config: psp_server::tls::TlsConfig,
    #[cfg(not(feature = "tls"))]
    config: std::convert::Infallible,
}

impl Tls {
    /// Serves connections from now on with what `files` have by now, and copies their names into `started`. If they
    /// cannot be used, says so in the log and changes nothing.
    pub fn take_over(&self, started: &mut TlsFiles, files: &TlsFiles, auth_clients: AuthClients) {
        match self.reload(files, auth_clients) {
            Ok(()) => started.clone_from(files),
            Err(error) => tracing::error!("certificates not reloaded: {error:#}"),
        }
    }
}

#[cfg(feature = "tls")]
impl Tls {
    /// Reads the files. `auth_clients` is the program's default.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn load(files: &TlsFiles, auth_clients: AuthClients) -> anyhow::Result<Self> {
        use psp_server::tls::{ClientCertificates, TlsConfig, TlsVersion};

        let cert_file = files.cert_file.as_ref();
        let cert_file = cert_file.context("TLS needs the file of a certificate")?;
        let key_file = files.key_file.as_ref();
        let key_file = key_file.context("TLS needs the file of a key")?;
        let authority = || {
            let file = files.ca_cert_file.clone();
            file.context("to check clients, TLS needs the file of their authority's certificate")
        };
        let clients = match files.auth_clients.unwrap_or(auth_clients) {
            AuthClients::Yes => ClientCertificates::Required(authority()?),
            AuthClients::Optional => ClientCertificates::Optional(authority()?),
            AuthClients::No => ClientCertificates::NotAsked,
        };
        let oldest = match files.oldest_version {
            None | Some(OldestVersion::Tls12) => TlsVersion::Tls12,
            Some(OldestVersion::Tls13) => TlsVersion::Tls13,
        };
        let config = TlsConfig::since(oldest, cert_file, key_file, &clients)?;
        Ok(Self { config })
    }

    /// Makes the server listen at TCP port `port` of each address.
    #[must_use]
    pub fn listen<F, K, H>(
        &self,
        builder: ServerBuilder<F, K, H>,
        addresses: &[IpAddr],
        port: u16,
    ) -> ServerBuilder<F, K, H> {
        addresses
            .iter()
            .fold(builder, |builder, &address| builder.tls((address, port), &self.config))
    }

    /// Serves connections from now on with what `files` have by now.
    ///
    /// # Errors
    /// Those of [`load`](Self::load). Nothing changes then.
    pub fn reload(&self, files: &TlsFiles, auth_clients: AuthClients) -> anyhow::Result<()> {
        let loaded = Self::load(files, auth_clients)?;
        self.config.replace(&loaded.config);
        Ok(())
    }
}

#[cfg(not(feature = "tls"))]
#[expect(missing_docs, reason = "documented with the feature")]
impl Tls {
    pub fn load(_: &TlsFiles, _: AuthClients) -> anyhow::Result<Self> {
        Err(anyhow::Error::msg(WITHOUT_TLS))
    }

    #[must_use]
    pub fn listen<F, K, H>(&self, _: ServerBuilder<F, K, H>, _: &[IpAddr], _: u16) -> ServerBuilder<F, K, H> {
        match self.config {}
    }

    pub fn reload(&self, _: &TlsFiles, _: AuthClients) -> anyhow::Result<()> {
        match self.config {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_needs_for_tls() {
        let refused = |files: &TlsFiles, auth_clients| Tls::load(files, auth_clients).unwrap_err().to_string();
        let mut files = TlsFiles::default();
        let no_files = refused(&files, AuthClients::No);
        files.cert_file = Some("cert.pem".into());
        let no_key = refused(&files, AuthClients::No);
        files.key_file = Some("key.pem".into());
        let no_authority = refused(&files, AuthClients::Yes);
        let nothing_there = refused(&files, AuthClients::No);
        let messages = [no_files, no_key, no_authority, nothing_there];
        let words = match cfg!(feature = "tls") {
            true => ["of a certificate", "of a key", "authority's", "cannot read certificates from cert.pem"],
            false => ["`--features tls`"; 4],
        };
        for (message, words) in messages.iter().zip(words) {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn a_file_has_the_choice_as_a_word() {
        let text = "cert-file = \"a\"\nauth-clients = \"optional\"\n";
        let files: TlsFiles = toml::from_str(text).unwrap();
        assert_eq!(files.auth_clients, Some(AuthClients::Optional));
        assert_eq!(toml::to_string(&files).unwrap(), text);
        assert!(toml::from_str::<TlsFiles>("auth-clients = 'perhaps'").is_err());
        for choice in [AuthClients::Yes, AuthClients::No, AuthClients::Optional] {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        assert!("maybe".parse::<AuthClients>().is_err());
    }

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
