//! What is measured: `redis://host:port`, `memcached+udp://host`, `redis+unix:/path`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RESP over a stream.
    Redis,
    /// The text protocol of memcached.
    Memcached,
    /// The meta protocol of memcached.
    MemcachedMeta,
    /// The text protocol of memcached in datagrams, behind its frame header.
    MemcachedUdp,
    /// The RPC of psp-protocols: protobuf messages behind their length.
    Protobuf,
    /// The psp header over UDP.
    PspUdp,
}

/// What is to be known of a protocol to find its servers.
struct Scheme {
    protocol: Protocol,
    /// What its URLs begin with.
    name: &'static str,
    port_default: Option<u16>,
}

const SCHEMES: &[Scheme] = &[
    Scheme {
        protocol: Protocol::Redis,
        name: "redis",
        port_default: Some(6379),
    },
    Scheme {
        protocol: Protocol::Memcached,
        name: "memcached",
        port_default: Some(11211),
    },
    Scheme {
        protocol: Protocol::MemcachedMeta,
        name: "memcached+meta",
        port_default: Some(11211),
    },
    Scheme {
        protocol: Protocol::MemcachedUdp,
        name: "memcached+udp",
        port_default: Some(11211),
    },
    Scheme {
        protocol: Protocol::Protobuf,
        name: "protobuf",
        port_default: None,
    },
    Scheme {
        protocol: Protocol::PspUdp,
        name: "psp",
        port_default: None,
    },
];

/// What the URL of a local socket begins with, alone or after the scheme of its protocol and `+`.
const UNIX: &str = "unix";

impl Protocol {
    /// The protocols by name.
    pub fn names() -> impl Iterator<Item = String> {
        SCHEMES.iter().map(|scheme| scheme.protocol.to_string())
    }

    fn scheme(self) -> &'static Scheme {
        let mut schemes = SCHEMES.iter();
        let found = schemes.find(|scheme| scheme.protocol == self);
        found.expect("every protocol has a scheme")
    }

    /// What requests of `command` are called unless they are named: its first word, in capitals
    /// where `get` and `GET` are one to the server.
    #[must_use]
    pub fn type_name(self, command: &str) -> String {
        let word = command.split_whitespace().next().unwrap_or_default();
        match self {
            Self::Protobuf => word.to_owned(),
            Self::Redis
            | Self::Memcached
            | Self::MemcachedMeta
            | Self::MemcachedUdp
            | Self::PspUdp => word.to_uppercase(),
        }
    }

    /// Whether requests and replies are datagrams; otherwise they make up a stream.
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::MemcachedUdp | Self::PspUdp)
    }

    /// Whether requests ask for service times; otherwise they are commands.
    #[must_use]
    pub const fn is_synthetic(self) -> bool {
        matches!(self, Self::PspUdp)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme().name.replace('+', "-"))
    }
}

impl FromStr for Protocol {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<Self, TargetError> {
        let mut schemes = SCHEMES.iter().map(|scheme| scheme.protocol);
        schemes
            .find(|protocol| protocol.to_string() == name)
            .ok_or_else(|| TargetError::Protocol {
                name: name.to_owned(),
            })
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An address and a port of TCP or UDP.
    Inet(SocketAddr),
    /// The path of a local socket.
    Unix(PathBuf),
}

/// A server to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// How to speak to it.
    pub protocol: Protocol,
    /// Where it is.
    pub endpoint: Endpoint,
    url: String,
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No scheme, or one that is not known.
    #[error("`{url}`: a target is one of {}", forms())]
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
    /// The path cannot be that of a local socket.
    #[error("`{url}`: a local socket cannot have this path")]
    Path {
        /// What was given.
        url: String,
        /// Why.
        source: std::io::Error,
    },
    /// A local socket, and nobody says what it speaks.
    #[error(
        "`{url}`: a local socket does not tell what it speaks; give --protocol, or redis+unix:PATH"
    )]
    NoProtocol {
        /// What was given.
        url: String,
    },
    /// The protocol has datagrams, which local sockets are not used for.
    #[error("`{url}`: {protocol} is a protocol of UDP")]
    Datagram {
        /// What was given.
        url: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// URL and option contradict each other.
    #[error("`{url}` speaks {protocol}, and not {told}")]
    Contradiction {
        /// What was given.
        url: String,
        /// The protocol of its scheme.
        protocol: Protocol,
        /// What it was said to speak.
        told: Protocol,
    },
    /// No protocol has this name.
    #[error("`{name}` is no protocol; there are {}", Protocol::names().collect::<Vec<_>>().join(", "))]
    Protocol {
        /// The name.
        name: String,
    },
}

/// The forms of all targets.
fn forms() -> String {
    let mut forms: Vec<_> = SCHEMES
        .iter()
        .map(|scheme| match scheme.port_default {
            Some(_) => format!("{}://HOST[:PORT]", scheme.name),
            None => format!("{}://HOST:PORT", scheme.name),
        })
        .collect();
    forms.push("redis+unix:PATH".to_owned());
    forms.push("unix:PATH".to_owned());
    forms.join(", ")
}

impl Target {
    /// Understands `url`. What does not tell its protocol, `unix:PATH`, speaks `protocol`.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong. A `protocol` that is not the URL's is.
    pub fn parse(url: &str, protocol: Option<Protocol>) -> Result<Self, TargetError> {
        let owned = || url.to_owned();
        let scheme_error = || TargetError::Scheme { url: owned() };
        let (prefix, rest) = url.split_once(':').ok_or_else(scheme_error)?;
        let local = match prefix.strip_suffix(UNIX) {
            Some("") => Some(None),
            Some(scheme) => scheme.strip_suffix('+').map(Some),
            None => None,
        };
        let named = |name: &str| SCHEMES.iter().find(|scheme| scheme.name == name);
        let own = match local {
            Some(None) => None,
            Some(Some(name)) => Some(named(name).ok_or_else(scheme_error)?.protocol),
            None => Some(named(prefix).ok_or_else(scheme_error)?.protocol),
        };
        if let (Some(own), Some(told)) = (own, protocol.filter(|told| Some(*told) != own)) {
            return Err(TargetError::Contradiction {
                url: owned(),
                protocol: own,
                told,
            });
        }
        let no_protocol = || TargetError::NoProtocol { url: owned() };
        let protocol = own.or(protocol).ok_or_else(no_protocol)?;
        let host_or_path = match (rest.strip_prefix("//"), local) {
            (Some(rest), _) => rest,
            (None, Some(_)) => rest,
            (None, None) => return Err(scheme_error()),
        };
        if host_or_path.trim_end_matches('/').is_empty() {
            return Err(scheme_error());
        }
        let endpoint = match local {
            Some(_) if protocol.is_datagram() => {
                let url = owned();
                return Err(TargetError::Datagram { url, protocol });
            }
            Some(_) => unix_endpoint(url, host_or_path)?,
            None => inet_endpoint(url, host_or_path.trim_end_matches('/'), protocol)?,
        };
        Ok(Self {
            protocol,
            endpoint,
            url: owned(),
        })
    }
}

fn unix_endpoint(url: &str, path: &str) -> Result<Endpoint, TargetError> {
    let path = PathBuf::from(path);
    match std::os::unix::net::SocketAddr::from_pathname(&path) {
        Ok(_) => Ok(Endpoint::Unix(path)),
        Err(source) => Err(TargetError::Path {
            url: url.to_owned(),
            source,
        }),
    }
}

fn inet_endpoint(url: &str, host: &str, protocol: Protocol) -> Result<Endpoint, TargetError> {
    // The colons of a bare IPv6 address are inside brackets.
    let has_port = host
        .rsplit(']')
        .next()
        .is_some_and(|tail| tail.contains(':'));
    let with_port = match (has_port, protocol.scheme().port_default) {
        (true, _) => host.to_owned(),
        (false, Some(port)) => format!("{host}:{port}"),
        (false, None) => {
            return Err(TargetError::Port {
                url: url.to_owned(),
            });
        }
    };
    let resolve_error = |source| TargetError::Resolve {
        url: url.to_owned(),
        source,
    };
    let mut addrs = with_port.to_socket_addrs().map_err(resolve_error)?;
    let addr = addrs.next();
    addr.map(Endpoint::Inet)
        .ok_or_else(|| resolve_error(std::io::ErrorKind::NotFound.into()))
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, TargetError> {
        Self::parse(url, None)
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

    fn inet(addr: &str) -> Endpoint {
        Endpoint::Inet(addr.parse().unwrap())
    }

    #[test]
    fn schemes_choose_protocol_and_port() {
        for (url, protocol, endpoint) in [
            ("redis://127.0.0.1", Protocol::Redis, inet("127.0.0.1:6379")),
            (
                "memcached://[::1]",
                Protocol::Memcached,
                inet("[::1]:11211"),
            ),
            (
                "memcached+meta://127.0.0.1:1",
                Protocol::MemcachedMeta,
                inet("127.0.0.1:1"),
            ),
            (
                "memcached+udp://127.0.0.1",
                Protocol::MemcachedUdp,
                inet("127.0.0.1:11211"),
            ),
            (
                "protobuf://127.0.0.1:2",
                Protocol::Protobuf,
                inet("127.0.0.1:2"),
            ),
            ("psp://[::1]:9000/", Protocol::PspUdp, inet("[::1]:9000")),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!((target.protocol, &target.endpoint), (protocol, &endpoint));
            assert_eq!(target.to_string(), url);
        }
    }

    #[test]
    fn local_sockets_speak_what_the_scheme_or_the_option_says() {
        for (url, told) in [
            ("redis+unix:/run/a.sock", None),
            ("redis+unix:///run/a.sock", Some(Protocol::Redis)),
            ("unix:/run/a.sock", Some(Protocol::Redis)),
        ] {
            let target = Target::parse(url, told).unwrap();
            assert_eq!(target.protocol, Protocol::Redis);
            assert_eq!(target.endpoint, Endpoint::Unix("/run/a.sock".into()));
        }
        let meta: Target = "memcached+meta+unix:a".parse().unwrap();
        assert_eq!(meta.protocol, Protocol::MemcachedMeta);
    }

    #[test]
    fn names_of_protocols_are_understood() {
        for name in Protocol::names() {
            assert_eq!(name.parse::<Protocol>().unwrap().to_string(), name);
        }
        let error = "http".parse::<Protocol>().unwrap_err().to_string();
        assert!(error.contains("there are redis"), "{error}");
    }

    #[test]
    fn bad_targets_are_refused_with_a_reason() {
        let long = format!("redis+unix:/{}", "a".repeat(200));
        for (url, told, reason) in [
            ("127.0.0.1:6379", None, "a target is one of"),
            ("http://127.0.0.1", None, "a target is one of"),
            ("redis://", None, "a target is one of"),
            ("redis:127.0.0.1", None, "a target is one of"),
            ("http+unix:/a", None, "a target is one of"),
            ("redisunix:/a", None, "a target is one of"),
            ("redis+unix:", None, "a target is one of"),
            ("psp://127.0.0.1", None, "port is missing"),
            ("redis://127.0.0.1:port", None, "cannot resolve"),
            ("unix:/a", None, "give --protocol"),
            (
                "unix:/a",
                Some(Protocol::PspUdp),
                "psp is a protocol of UDP",
            ),
            (
                "memcached+udp+unix:/a",
                None,
                "memcached-udp is a protocol of UDP",
            ),
            ("redis://127.0.0.1", Some(Protocol::PspUdp), "and not psp"),
            (&long, None, "cannot have this path"),
        ] {
            let error = Target::parse(url, told).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
