//! What is measured: `redis://host:port`, `psp://host:port`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RESP over TCP.
    Redis,
    /// The psp header over UDP.
    PspUdp,
}

/// Scheme, protocol and default port.
const SCHEMES: &[(&str, Protocol, Option<u16>)] = &[
    ("redis", Protocol::Redis, Some(6379)),
    ("psp", Protocol::PspUdp, None),
];

/// A server to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// How to speak to it.
    pub protocol: Protocol,
    /// Where it is.
    pub addr: SocketAddr,
    url: String,
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No `scheme://`, or one that is not known.
    #[error("`{url}`: a target is one of redis://HOST[:PORT], psp://HOST:PORT")]
    Scheme {
        /// What was given.
        url: String,
    },
    /// The scheme has no default port.
    #[error("`{url}`: the port is missing")]
    Port {
        /// What was given.
        url: String,
    },
    /// The host has no address.
    #[error("`{url}`: cannot resolve the host")]
    Resolve {
        /// What was given.
        url: String,
        /// Why.
        source: std::io::Error,
    },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, TargetError> {
        let owned = || url.to_owned();
        let scheme_error = || TargetError::Scheme { url: owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(scheme_error)?;
        let &(_, protocol, port_default) = SCHEMES
            .iter()
            .find(|(name, ..)| *name == scheme)
            .ok_or_else(scheme_error)?;
        let host = rest.trim_end_matches('/');
        if host.is_empty() {
            return Err(scheme_error());
        }
        // The colons of a bare IPv6 address are inside brackets.
        let has_port = host
            .rsplit(']')
            .next()
            .is_some_and(|tail| tail.contains(':'));
        let with_port = match (has_port, port_default) {
            (true, _) => host.to_owned(),
            (false, Some(port)) => format!("{host}:{port}"),
            (false, None) => return Err(TargetError::Port { url: owned() }),
        };
        let resolve_error = |source| TargetError::Resolve {
            url: owned(),
            source,
        };
        let addr = with_port
            .to_socket_addrs()
            .map_err(resolve_error)?
            .next()
            .ok_or_else(|| resolve_error(std::io::ErrorKind::NotFound.into()))?;
        Ok(Self {
            protocol,
            addr,
            url: owned(),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_choose_protocol_and_port() {
        let redis: Target = "redis://127.0.0.1".parse().unwrap();
        assert_eq!(redis.protocol, Protocol::Redis);
        assert_eq!(redis.addr, "127.0.0.1:6379".parse().unwrap());
        let psp: Target = "psp://[::1]:9000/".parse().unwrap();
        assert_eq!(psp.protocol, Protocol::PspUdp);
        assert_eq!(psp.addr, "[::1]:9000".parse().unwrap());
    }

    #[test]
    fn bad_targets_are_refused_with_a_reason() {
        for (url, reason) in [
            ("127.0.0.1:6379", "a target is one of"),
            ("http://127.0.0.1", "a target is one of"),
            ("redis://", "a target is one of"),
            ("psp://127.0.0.1", "port is missing"),
            ("redis://127.0.0.1:port", "cannot resolve"),
        ] {
            let error = url.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
