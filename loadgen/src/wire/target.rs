//! Targets: `redis://host:port`, `memcached+udp://host`, `redis+unix:/path`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use super::greeting::Greeting;
use super::http::HttpWire;
use super::lines::LinesWire;
use super::own::Wire;
use super::tls::{Tls, TlsError, TlsOptions};

/// The protocol of a target.
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
    /// A protocol over streams that a [`Wire`] describes.
    Wire(&'static dyn Wire),
}

/// How URLs name servers of a protocol.
struct Scheme {
    protocol: Protocol,
    /// The scheme of URLs.
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
    Scheme { protocol: Protocol::PspUdp, name: "psp", port_default: None },
];

/// The generator's own wires.
const WIRES: &[&dyn Wire] = &[&HttpWire, &LinesWire];

/// The end of a scheme that its URLs and names may lack.
const TCP: &str = "+tcp";

/// The end of the schemes of encrypted streams, and those that have names of their own with default ports.
const TLS: &str = "+tls";
const TLS_SCHEMES: &[(&str, &str, u16)] = &[("rediss", "redis", 6379), ("https", "http", 443)];

/// The scheme of local sockets, alone or after the scheme of the protocol and `+`.
const UNIX: &str = "unix";

impl Protocol {
    /// The protocols by name.
    pub fn names() -> impl Iterator<Item = String> {
        Self::all().map(|protocol| protocol.to_string())
    }

    fn all() -> impl Iterator<Item = Self> {
        let wires = WIRES.iter().map(|wire| Self::Wire(*wire));
        SCHEMES.iter().map(|scheme| scheme.protocol).chain(wires)
    }

    /// The protocol of URLs with this scheme.
    fn of_scheme(name: &str) -> Option<Self> {
        Self::all().find(|protocol| {
            let scheme = protocol.scheme();
            scheme == name || scheme.strip_suffix(TCP) == Some(name)
        })
    }

    fn entry(self) -> Option<&'static Scheme> {
        SCHEMES.iter().find(|scheme| scheme.protocol == self)
    }

    /// The scheme of URLs.
    fn scheme(self) -> &'static str {
        match self {
            Self::Wire(wire) => wire.scheme(),
            _ => self.entry().expect("every protocol has a scheme").name,
        }
    }

    fn port_default(self) -> Option<u16> {
        match self {
            Self::Wire(wire) => wire.port_default(),
            _ => self.entry()?.port_default,
        }
    }

    /// The protocols that a client offers when it encrypts.
    fn alpn(self) -> &'static [&'static str] {
        if self.is_http() { &["http/1.1"] } else { &[] }
    }

    /// The default name of requests of `command`: its first word, in capitals if the server ignores
    /// case.
    #[must_use]
    pub fn type_name(self, command: &str) -> String {
        let word = command.split_whitespace().next().unwrap_or_default();
        match self {
            Self::Protobuf => word.to_owned(),
            Self::Wire(wire) => wire.type_name(command),
            Self::Redis | Self::Memcached | Self::MemcachedMeta | Self::MemcachedUdp | Self::PspUdp => {
                word.to_uppercase()
            }
        }
    }

    /// Whether requests and replies are datagrams. Otherwise they form a stream.
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::MemcachedUdp | Self::PspUdp)
    }

    /// Whether requests have headers and bodies.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Wire(wire) if wire.is_http())
    }

    /// Whether requests ask for service times; otherwise they are commands.
    #[must_use]
    pub const fn is_synthetic(self) -> bool {
        matches!(self, Self::PspUdp)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme().replace('+', "-"))
    }
}

impl FromStr for Protocol {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<Self, TargetError> {
        Self::all()
            .find(|protocol| protocol.to_string() == name)
            .ok_or_else(|| TargetError::Protocol { name: name.to_owned() })
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Addresses and ports of TCP or UDP: those of one name, at least one, in the order in which they are tried.
    Inet(Vec<SocketAddr>),
    /// The path of a local socket.
    Unix(PathBuf),
}

/// A server to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub protocol: Protocol,
    /// The address.
    pub endpoint: Endpoint,
    url: String,
    authority: String,
    /// What the URL asks an HTTP server for.
    page: Option<String>,
    /// What each connection begins with.
    pub(crate) greeting: Greeting,
    /// How its connections are encrypted.
    pub(crate) tls: Option<Tls>,
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The URL has no scheme, or an unknown one.
    #[error("`{url}`: a target is one of {}", forms())]
    Scheme {
        /// The URL.
        url: String,
    },
    /// The scheme has no default port.
    #[error("`{url}`: the port is missing")]
    Port {
        /// The URL.
        url: String,
    },
    /// The host has no address.
    #[error("`{url}`: cannot resolve the host")]
    Resolve {
        /// The URL.
        url: String,
        /// Why.
        source: std::io::Error,
    },
    /// The URL of another server than one of HTTP has a path.
    #[error("`{url}`: only targets of HTTP have a path, and those of Redis the number of a database")]
    Page {
        /// The URL.
        url: String,
    },
    /// The database is no number.
    #[error("`{url}`: a database has a number, as in redis://:password@host/3")]
    Database {
        /// The URL.
        url: String,
    },
    /// The path is not valid for a local socket.
    #[error("`{url}`: a local socket cannot have this path")]
    Path {
        /// The URL.
        url: String,
        /// Why.
        source: std::io::Error,
    },
    /// Neither the URL nor an option names the protocol of a local socket.
    #[error("`{url}`: the URL of a local socket names no protocol; give --protocol, or redis+unix:PATH")]
    NoProtocol {
        /// The URL.
        url: String,
    },
    /// The protocol uses datagrams, which local sockets do not carry.
    #[error("`{url}`: {protocol} is a protocol of UDP")]
    Datagram {
        /// The URL.
        url: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// Connections cannot be encrypted.
    #[error("`{url}`")]
    Tls {
        /// The URL.
        url: String,
        /// Why.
        source: TlsError,
    },
    /// Options of TLS go with a target that has it.
    #[error("`{url}` is not encrypted, so it takes no options of TLS; rediss://, https:// and SCHEME+tls:// are")]
    NoTls {
        /// The URL.
        url: String,
    },
    /// Datagrams are not encrypted.
    #[error("`{url}`: datagrams are not encrypted")]
    NotEncrypted {
        /// The URL.
        url: String,
    },
    /// The URL and the option name different protocols.
    #[error("`{url}` speaks {protocol}, and not {told}")]
    Contradiction {
        /// The URL.
        url: String,
        /// The protocol of its scheme.
        protocol: Protocol,
        /// The protocol of the option.
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
    let mut forms: Vec<_> = Protocol::all()
        .map(|protocol| match protocol.port_default() {
            Some(_) => format!("{}://HOST[:PORT]", protocol.scheme()),
            None => format!("{}://HOST:PORT", protocol.scheme()),
        })
        .collect();
    forms.extend(TLS_SCHEMES.iter().map(|(scheme, ..)| format!("{scheme}://HOST[:PORT]")));
    forms.push("SCHEME+tls://HOST[:PORT]".to_owned());
    forms.push("redis+unix:PATH".to_owned());
    forms.push("unix:PATH".to_owned());
    forms.join(", ")
}

impl Target {
    /// Parses `url`. `protocol` applies to `unix:PATH`, which names none.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong. A `protocol` that differs from the URL's is an error.
    pub fn parse(url: &str, protocol: Option<Protocol>) -> Result<Self, TargetError> {
        Self::parse_with_tls(url, protocol, &TlsOptions::default())
    }

    /// The same. Connections that are encrypted are so by these options.
    ///
    /// # Errors
    /// See [`parse`](Self::parse).
    pub fn parse_with_tls(url: &str, protocol: Option<Protocol>, tls: &TlsOptions) -> Result<Self, TargetError> {
        Self::parse_among(url, protocol, Protocol::of_scheme, tls)
    }

    /// Parses `url` of a server that speaks the protocol of `wire`: `SCHEME://HOST[:PORT]`,
    /// `SCHEME+unix:PATH` or `unix:PATH`.
    ///
    /// # Errors
    /// See [`parse`](Self::parse).
    pub fn for_wire(url: &str, wire: &'static dyn Wire) -> Result<Self, TargetError> {
        let protocol = Protocol::Wire(wire);
        let named = |name: &str| match name == wire.scheme() {
            true => Some(protocol),
            false => Protocol::of_scheme(name),
        };
        Self::parse_among(url, Some(protocol), named, &TlsOptions::default())
    }

    fn parse_among(
        url: &str,
        protocol: Option<Protocol>,
        named: impl Fn(&str) -> Option<Protocol>,
        tls: &TlsOptions,
    ) -> Result<Self, TargetError> {
        let owned = || masked(url);
        let scheme_error = || TargetError::Scheme { url: owned() };
        let (prefix, rest) = url.split_once(':').ok_or_else(scheme_error)?;
        let local = match prefix.strip_suffix(UNIX) {
            Some("") => Some(None),
            Some(scheme) => scheme.strip_suffix('+').map(Some),
            None => None,
        };
        let encrypted = Encrypted::of(prefix);
        let name = local.unwrap_or_else(|| Some(encrypted.map_or(prefix, |it| it.scheme)));
        let own = name.map(|name| named(name).ok_or_else(scheme_error)).transpose()?;
        if let (Some(own), Some(told)) = (own, protocol.filter(|told| Some(*told) != own)) {
            return Err(TargetError::Contradiction { url: owned(), protocol: own, told });
        }
        let no_protocol = || TargetError::NoProtocol { url: owned() };
        let protocol = own.or(protocol).ok_or_else(no_protocol)?;
        let unmarked = local.map(|_| rest);
        let host_or_path = rest.strip_prefix("//").or(unmarked).ok_or_else(scheme_error)?;
        let parts = match local {
            None => Parts::of_protocol(url, host_or_path, protocol)?,
            Some(_) => Parts::of(url, host_or_path.trim_end_matches('/')),
        };
        let Parts { host, page, greeting, shown } = parts;
        if host.is_empty() {
            return Err(scheme_error());
        }
        let endpoint = match local {
            Some(_) if protocol.is_datagram() => return Err(TargetError::Datagram { url: owned(), protocol }),
            Some(_) => unix_endpoint(url, host_or_path)?,
            None => {
                let port_default = encrypted.and_then(|it| it.port_default).or(protocol.port_default());
                inet_endpoint(url, host, port_default)?
            }
        };
        if encrypted.is_some() && protocol.is_datagram() {
            return Err(TargetError::NotEncrypted { url: owned() });
        }
        let tls = encrypted.map(|_| Tls::new(tls, host, protocol.alpn())).transpose();
        let tls = tls.map_err(|source| TargetError::Tls { url: owned(), source })?;
        let authority = if local.is_some() { "localhost" } else { host }.to_owned();
        Ok(Self {
            protocol,
            endpoint,
            url: shown,
            authority,
            page,
            greeting,
            tls,
        })
    }

    /// Path and query of the URL of an HTTP server, if it has one.
    #[must_use]
    pub fn page(&self) -> Option<&str> {
        self.page.as_deref()
    }

    /// Whether its connections are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Host and port as the URL has them; `localhost` for a local socket.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// What the scheme of an encrypted target says.
#[derive(Debug, Clone, Copy)]
struct Encrypted<'a> {
    /// The scheme of the same protocol without encryption.
    scheme: &'a str,
    port_default: Option<u16>,
}

impl<'a> Encrypted<'a> {
    fn of(prefix: &'a str) -> Option<Self> {
        let named = TLS_SCHEMES.iter().find(|(name, ..)| *name == prefix);
        let named = named.map(|&(_, scheme, port)| Self { scheme, port_default: Some(port) });
        named.or_else(|| Some(Self { scheme: prefix.strip_suffix(TLS)?, port_default: None }))
    }
}

/// What stands behind the scheme of a URL.
struct Parts<'a> {
    /// Host and port.
    host: &'a str,
    page: Option<String>,
    greeting: Greeting,
    /// The URL as reports have it.
    shown: String,
}

impl<'a> Parts<'a> {
    fn of(url: &str, host: &'a str) -> Self {
        Self {
            host,
            page: None,
            greeting: Greeting::default(),
            shown: masked(url),
        }
    }

    /// Those of a server that is no local socket.
    fn of_protocol(url: &str, rest: &'a str, protocol: Protocol) -> Result<Self, TargetError> {
        let host = rest.trim_end_matches('/');
        match protocol {
            _ if protocol.is_http() => Ok(Self::of_http(url, rest)),
            Protocol::Redis => Self::of_redis(url, rest),
            _ if host.contains('/') => Err(TargetError::Page { url: masked(url) }),
            _ => Ok(Self::of(url, host)),
        }
    }

    /// The page has no fragment.
    fn of_http(url: &str, rest: &'a str) -> Self {
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, page) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let slash = if page.starts_with('?') { "/" } else { "" };
        let page = Some(format!("{slash}{page}")).filter(|page| !page.is_empty());
        Self { page, ..Self::of(url, host) }
    }

    fn of_redis(url: &str, rest: &'a str) -> Result<Self, TargetError> {
        let rest = rest.trim_end_matches('/');
        // A password may have any characters.
        let (credentials, server) = rest.rsplit_once('@').map_or((None, rest), |(it, server)| (Some(it), server));
        let (host, database) = server.split_once('/').map_or((server, None), |(host, number)| (host, Some(number)));
        let database = database.map(str::parse).transpose();
        let database = database.map_err(|_| TargetError::Database { url: masked(url) })?;
        Ok(Self {
            greeting: Greeting::of_redis(credentials, database),
            ..Self::of(url, host)
        })
    }
}

/// The URL without its user and password, which no report and no error tells.
#[must_use]
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("//") else {
        return url.to_owned();
    };
    // A password may have any characters, but in a URL of HTTP, whose path may have others.
    let authority_len = match scheme.starts_with("http") {
        true => rest.find('/').unwrap_or(rest.len()),
        false => rest.len(),
    };
    match rest[..authority_len].rfind('@') {
        Some(at) => format!("{scheme}//***{}", &rest[at..]),
        None => url.to_owned(),
    }
}

fn unix_endpoint(url: &str, path: &str) -> Result<Endpoint, TargetError> {
    let path = PathBuf::from(path);
    match std::os::unix::net::SocketAddr::from_pathname(&path) {
        Ok(_) => Ok(Endpoint::Unix(path)),
        Err(source) => Err(TargetError::Path { url: masked(url), source }),
    }
}

fn inet_endpoint(url: &str, host: &str, port_default: Option<u16>) -> Result<Endpoint, TargetError> {
    // The colons of a bare IPv6 address are inside brackets.
    let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    let with_port = match (has_port, port_default) {
        (true, _) => host.to_owned(),
        (false, Some(port)) => format!("{host}:{port}"),
        (false, None) => {
            return Err(TargetError::Port { url: masked(url) });
        }
    };
    let resolve_error = |source| TargetError::Resolve { url: masked(url), source };
    let addrs: Vec<_> = with_port.to_socket_addrs().map_err(resolve_error)?.collect();
    if addrs.is_empty() {
        return Err(resolve_error(std::io::ErrorKind::NotFound.into()));
    }
    Ok(Endpoint::Inet(addrs))
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
        Endpoint::Inet(vec![addr.parse().unwrap()])
    }

    #[test]
    fn schemes_choose_protocol_and_port() {
        for (url, protocol, endpoint) in [
            ("redis://127.0.0.1", Protocol::Redis, inet("127.0.0.1:6379")),
            ("memcached://[::1]", Protocol::Memcached, inet("[::1]:11211")),
            ("memcached+meta://127.0.0.1:1", Protocol::MemcachedMeta, inet("127.0.0.1:1")),
            ("memcached+udp://127.0.0.1", Protocol::MemcachedUdp, inet("127.0.0.1:11211")),
            ("protobuf://127.0.0.1:2", Protocol::Protobuf, inet("127.0.0.1:2")),
            ("psp://[::1]:9000/", Protocol::PspUdp, inet("[::1]:9000")),
            ("http://127.0.0.1/", Protocol::Wire(&HttpWire), inet("127.0.0.1:80")),
            ("lines+tcp://127.0.0.1:7", Protocol::Wire(&LinesWire), inet("127.0.0.1:7")),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!((target.protocol, &target.endpoint), (protocol, &endpoint));
            assert_eq!((target.to_string().as_str(), target.tls), (url, None));
        }
    }

    #[test]
    fn schemes_may_say_that_streams_are_encrypted() {
        let options = TlsOptions { insecure: true, ..TlsOptions::default() };
        for (url, protocol, endpoint) in [
            ("rediss://127.0.0.1", Protocol::Redis, inet("127.0.0.1:6379")),
            ("https://[::1]/a", Protocol::Wire(&HttpWire), inet("[::1]:443")),
            ("redis+tls://127.0.0.1:7", Protocol::Redis, inet("127.0.0.1:7")),
            ("memcached+meta+tls://127.0.0.1", Protocol::MemcachedMeta, inet("127.0.0.1:11211")),
            ("lines+tls://127.0.0.1:7", Protocol::Wire(&LinesWire), inet("127.0.0.1:7")),
        ] {
            let target = Target::parse_with_tls(url, None, &options).unwrap();
            assert_eq!((target.protocol, &target.endpoint), (protocol, &endpoint));
            assert_eq!(target.to_string(), url);
            assert!(target.tls.is_some());
        }
        for (url, reason) in [
            ("memcached+udp+tls://127.0.0.1", "datagrams are not encrypted"),
            ("gopher+tls://127.0.0.1", "a target is one of"),
            ("redis+tls+unix:/a", "a target is one of"),
            ("protobuf+tls://127.0.0.1", "port is missing"),
        ] {
            let error = Target::parse_with_tls(url, None, &options).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn a_url_of_http_may_name_a_page() {
        for (url, page) in [
            ("http://127.0.0.1:7", None),
            ("http://127.0.0.1:7/", Some("/")),
            ("http://127.0.0.1:7/a/b/?c=d:e,f#g", Some("/a/b/?c=d:e,f")),
            ("http://127.0.0.1:7?c=/d", Some("/?c=/d")),
            ("http+unix:/a/b", None),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!(target.page(), page, "{url}");
            let has_host = target.authority() == "127.0.0.1:7" || target.endpoint == Endpoint::Unix("/a/b".into());
            assert!(has_host, "{url}");
        }
    }

    #[test]
    fn no_error_tells_a_password() {
        for url in ["redis://:secret@127.0.0.1/x", "redis://me:secret@:0", "http://me:secret@127.0.0.1:x/"] {
            let error = url.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("//***@") && !error.contains("secret"), "{error}");
        }
        assert_eq!(masked("http://127.0.0.1/@user"), "http://127.0.0.1/@user");
    }

    #[test]
    fn a_url_of_redis_may_have_credentials_and_a_database() {
        for (url, shown, replies) in [
            ("redis://127.0.0.1", "redis://127.0.0.1", 0),
            ("redis://:p@ss@127.0.0.1:6379/3", "redis://***@127.0.0.1:6379/3", 2),
            ("redis://me:pass@127.0.0.1/", "redis://***@127.0.0.1/", 1),
            ("redis://127.0.0.1/0", "redis://127.0.0.1/0", 1),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!((target.to_string().as_str(), target.greeting.replies), (shown, replies));
            assert_eq!(target.endpoint, inet("127.0.0.1:6379"));
        }
    }

    #[test]
    fn a_name_has_all_its_addresses() {
        let target: Target = "redis://localhost:7".parse().unwrap();
        let addrs = "localhost:7".to_socket_addrs().unwrap().collect();
        assert_eq!(target.endpoint, Endpoint::Inet(addrs));
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
        let lines: Target = "lines+unix:a".parse().unwrap();
        assert_eq!(lines.protocol, Protocol::Wire(&LinesWire));
        assert_eq!(lines.authority(), "localhost");
    }

    #[test]
    fn names_of_protocols_are_understood() {
        for name in Protocol::names() {
            assert_eq!(name.parse::<Protocol>().unwrap().to_string(), name);
        }
        let error = "gopher".parse::<Protocol>().unwrap_err().to_string();
        assert!(error.contains("there are redis"), "{error}");
    }

    #[test]
    fn bad_targets_are_refused_with_a_reason() {
        let long = format!("redis+unix:/{}", "a".repeat(200));
        for (url, told, reason) in [
            ("127.0.0.1:6379", None, "a target is one of"),
            ("gopher://127.0.0.1", None, "a target is one of"),
            ("redis://", None, "a target is one of"),
            ("redis:127.0.0.1", None, "a target is one of"),
            ("gopher+unix:/a", None, "a target is one of"),
            ("redisunix:/a", None, "a target is one of"),
            ("redis+unix:", None, "a target is one of"),
            ("psp://127.0.0.1", None, "port is missing"),
            ("lines+tcp://127.0.0.1", None, "port is missing"),
            ("redis://127.0.0.1:port", None, "cannot resolve"),
            ("redis://127.0.0.1/a", None, "a database has a number"),
            ("memcached://127.0.0.1/a", None, "only targets of HTTP have a path"),
            ("unix:/a", None, "give --protocol"),
            ("unix:/a", Some(Protocol::PspUdp), "psp is a protocol of UDP"),
            ("memcached+udp+unix:/a", None, "memcached-udp is a protocol of UDP"),
            ("redis://127.0.0.1", Some(Protocol::PspUdp), "and not psp"),
            (&long, None, "cannot have this path"),
        ] {
            let error = Target::parse(url, told).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
