//! An address to listen on, as memcached's `-l` takes it: `127.0.0.1`, `[::1]:11212`, `notls:10.0.0.1`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What an address begins with that serves plain connections beside addresses with TLS.
const PLAIN: &str = "notls:";

/// An address, and what differs there from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListenAddress {
    /// The address.
    pub ip: IpAddr,
    /// Its TCP port; `None` for the port of all.
    pub port: Option<u16>,
    /// Whether connections are plain, also if the server has certificates.
    pub is_plain: bool,
}

impl ListenAddress {
    /// The loopback interface.
    pub(crate) const LOCALHOST: Self = Self {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: None,
        is_plain: false,
    };
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let rest = written.strip_prefix(PLAIN);
        let is_plain = rest.is_some();
        let rest = rest.unwrap_or(written);
        let (ip, port) = match (rest.parse(), rest.parse::<SocketAddr>()) {
            (Ok(ip), _) => (ip, None),
            (_, Ok(address)) => (address.ip(), Some(address.port())),
            _ => {
                return Err(format!("'{rest}' is neither an IP address nor one with a port"));
            }
        };
        Ok(Self { ip, port, is_plain })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_plain { PLAIN } else { "" })?;
        match self.port {
            None => self.ip.fmt(f),
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        written.parse()
    }
}

impl From<ListenAddress> for String {
    fn from(address: ListenAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_for_memcached() {
        for (written, port, is_plain) in [
            ("127.0.0.1", None, false),
            ("::1", None, false),
            ("10.0.0.1:11212", Some(11212), false),
            ("[::1]:11212", Some(11212), false),
            ("notls:0.0.0.0", None, true),
            ("notls:[::]:1", Some(1), true),
        ] {
            let address: ListenAddress = written.parse().unwrap();
            assert_eq!((address.port, address.is_plain), (port, is_plain), "{written}");
            assert_eq!(address.to_string(), written);
        }
        for written in ["", "notls:", "localhost", "127.0.0.1:", "127.0.0.1:65536", "tls:::1"] {
            assert!(written.parse::<ListenAddress>().is_err(), "{written}");
        }
    }
}
