//! Where the admin port listens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use super::access::{Access, Token};
use super::certificates::Certificates;
use crate::config::Config;
use crate::error::BuildError;

/// A bound port that no thread serves yet.
#[derive(Debug)]
pub(crate) struct AdminListener {
    pub(super) listener: TcpListener,
    address: SocketAddr,
    pub(super) access: Access,
    /// Of a port that speaks TLS.
    pub(super) certificates: Option<Certificates>,
}

impl AdminListener {
    /// Binds `place`, which is `HOST:PORT`, or a port of the loopback interface.
    ///
    /// # Errors
    /// When there is no such address, or it cannot be bound. When the token or the certificate cannot be read.
    pub(crate) fn bind(place: &str, config: &Config) -> Result<Self, BuildError> {
        let token = config
            .admin_token_file
            .as_deref()
            .map(|path| Token::read(path).map_err(|source| BuildError::AdminToken { path: path.to_owned(), source }));
        let token = token.transpose()?;
        let bind = || {
            let listener = TcpListener::bind(&*addresses(place)?)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let access = Access::new(address, token);
            let certificates = certificates(config)?;
            Ok(Self { listener, address, access, certificates })
        };
        bind().map_err(|source| BuildError::Admin { address: place.to_owned(), source })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How an address of the port begins.
    pub(crate) const fn scheme(&self) -> &'static str {
        match self.certificates {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// What the settings name for TLS.
fn certificates(config: &Config) -> io::Result<Option<Certificates>> {
    match (&config.admin_tls_cert_file, &config.admin_tls_key_file) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Certificates::read(chain, key).map(Some).map_err(io::Error::other),
        _ => Err(io::Error::other("admin-tls-cert-file and admin-tls-key-file need each other")),
    }
}

fn addresses(place: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(match place.parse() {
        Ok(port) => vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)],
        Err(_) => place.to_socket_addrs()?.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        assert_eq!(addresses("9100").unwrap(), ["127.0.0.1:9100".parse().unwrap()]);
        assert_eq!(addresses("0.0.0.0:1").unwrap(), ["0.0.0.0:1".parse().unwrap()]);
        for wrong in ["", "host", "70000", "127.0.0.1"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}
