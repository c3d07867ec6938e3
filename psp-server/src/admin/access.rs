//! Who may ask the admin port for what.
//!
//! ```text
//!   request ──► names one host ──► on loopback: an address or localhost ──► PUT: of no other site ──► token ──► answer
//! ```
//!
//! Probes and Prometheus ask for health and figures without the token. Everything else needs it if there is one, and
//! beyond the loopback interface in any case.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::{fs, io};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode, Version};
use subtle::ConstantTimeEq as _;

use super::answer::Answer;

/// Paths that need no token.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Access {
    /// The port is one of the loopback interface.
    is_local: bool,
    token: Option<Token>,
}

impl Access {
    pub(super) fn new(address: SocketAddr, token: Option<Token>) -> Self {
        Self { is_local: address.ip().is_loopback(), token }
    }

    /// Refuses what a request may not have.
    pub(super) fn admit(&self, head: &Parts) -> Result<(), Answer> {
        let Some(host) = host_of(head) else {
            let text = "name one host";
            return Err(Answer::text(StatusCode::BAD_REQUEST, text));
        };
        if self.is_local && !host.is_none_or(is_address_or_localhost) {
            return Err(Answer::text(
                StatusCode::MISDIRECTED_REQUEST,
                "this port is known by its address and as localhost alone",
            ));
        }
        if head.method == Method::PUT && !is_of_this_site(&head.headers, host) {
            let text = "a page of another site may not change anything";
            return Err(Answer::text(StatusCode::FORBIDDEN, text));
        }
        if OPEN.contains(&head.uri.path()) {
            return Ok(());
        }
        match &self.token {
            Some(token) if token.is_in(&head.headers) => Ok(()),
            Some(_) => Err(Answer::unauthorized()),
            None if self.is_local => Ok(()),
            None => {
                let open = OPEN.join(", ");
                let text = format!(
                    "beyond the loopback interface this needs a token (admin-token-file); without one there are {open}"
                );
                Err(Answer::text(StatusCode::FORBIDDEN, text))
            }
        }
    }
}

/// The secret of those who may use the port.
pub(crate) struct Token(String);

impl Token {
    /// Reads the secret from a file. Space around it does not count.
    ///
    /// # Errors
    /// When the file cannot be read, or has nothing.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let token = fs::read_to_string(path)?.trim().to_owned();
        match token.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "the token is empty")),
            false => Ok(Self(token)),
        }
    }

    /// Whether the request has the secret: as a bearer token, or as the password of any user, which browsers ask for.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some((scheme, credentials)) =
            one(headers, AUTHORIZATION).ok().flatten().and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        let credentials = credentials.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(credentials.as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return false;
        }
        let decoded = BASE64_STANDARD.decode(credentials).unwrap_or_default();
        let colon = decoded.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| self.is(&decoded[colon + 1..]))
    }

    fn is(&self, secret: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(secret).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The only value of a header; `None` without one.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The host that a request names. The inner `None` is for HTTP/1.0, where it need not name one; the outer one for a
/// request that names none, two, or different ones.
fn host_of(head: &Parts) -> Option<Option<&str>> {
    let host = one(&head.headers, HOST).ok()?;
    if head.version >= Version::HTTP_11 && host.is_none() {
        return None;
    }
    let in_target = head.uri.authority().map(Authority::as_str);
    match (in_target, host) {
        (Some(target), Some(host)) if target != host => None,
        (target, host) => Some(host.or(target)),
    }
}

/// Whether a host is exactly an address or `localhost`, with a port or without.
fn is_address_or_localhost(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.len() <= 5;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_known = match v6 {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    };
    is_known && is_port(port)
}

/// Whether a request comes from a page of this port, or from no page: browsers name the site of a page.
fn is_of_this_site(headers: &HeaderMap, host: Option<&str>) -> bool {
    match one(headers, ORIGIN) {
        Ok(None) => true,
        Ok(Some(origin)) => {
            let site = origin.split_once("://").map(|(_, site)| site);
            site.is_some() && site == host
        }
        Err(()) => false,
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    const LOCAL: &str = "127.0.0.1:9100";
    const PUBLIC: &str = "192.0.2.1:9100";

    fn token() -> Option<Token> {
        Some(Token("secret".to_owned()))
    }

    /// The status of the refusal, or 200.
    fn status(
        (address, token): (&str, Option<Token>),
        method: &Method,
        path: &str,
        headers: &[(HeaderName, &str)],
    ) -> u16 {
        let request = Request::builder().method(method).uri(path);
        let request = { headers.iter() }.fold(request, |request, (name, value)| request.header(name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        let access = Access::new(address.parse().unwrap(), token);
        match access.admit(&head) {
            Ok(()) => 200,
            Err(refused) => refused.into_response().status().as_u16(),
        }
    }

    #[test]
    fn hosts_are_addresses_or_localhost() {
        for (expected, hosts) in [
            (
                200,
                &["127.0.0.1", "127.0.0.1:9100", "[::1]:9100", "[::1]", "localhost:1", "LOCALHOST"][..],
            ),
            (
                421,
                &[
                    "example.org",
                    "localhost.example.org:9100",
                    "127.0.0.1.example.org",
                    "[::1].example.org",
                    "[::1]example.org:9100",
                    "::1",
                    "localhost:9100.example.org",
                    "user@localhost",
                    "",
                    "a b",
                ],
            ),
        ] {
            for host in hosts {
                let found = status((LOCAL, None), &Method::GET, "/", &[(HOST, host)]);
                assert_eq!(found, expected, "{host}");
            }
        }
        let named = |hosts: &[&str]| {
            let headers: Vec<_> = hosts.iter().map(|host| (HOST, *host)).collect();
            status((LOCAL, None), &Method::GET, "/", &headers)
        };
        assert_eq!(named(&["localhost", "localhost"]), 400, "two");
        assert_eq!(named(&[]), 400, "none");
        let target = "http://example.org/";
        let host = [(HOST, "localhost")];
        assert_eq!(status((LOCAL, None), &Method::GET, target, &host), 400);
    }

    #[test]
    fn only_pages_of_the_port_change_something() {
        for (origin, expected) in [
            ("http://localhost:9100", 200),
            ("http://localhost", 403),
            ("https://example.org", 403),
            ("null", 403),
        ] {
            let headers = [(HOST, "localhost:9100"), (ORIGIN, origin)];
            let put = status((LOCAL, None), &Method::PUT, "/policy", &headers);
            assert_eq!(put, expected, "{origin}");
            assert_eq!(status((LOCAL, None), &Method::GET, "/", &headers), 200);
        }
    }

    #[test]
    fn a_token_is_asked_for_beyond_health_and_figures() {
        let user = format!("Basic {}", BASE64_STANDARD.encode("anybody:secret"));
        let other = format!("Basic {}", BASE64_STANDARD.encode("secret:"));
        for (authorization, with_token) in [
            (None, 401),
            (Some("Bearer secret"), 200),
            (Some("Bearer secret2"), 401),
            (Some("Bearer"), 401),
            (Some(&*user), 200),
            (Some(&*other), 401),
            (Some("Basic ?"), 401),
            (Some("Digest secret"), 401),
        ] {
            let host = [(HOST, "127.0.0.1")];
            let authorization = authorization.map(|value| (AUTHORIZATION, value));
            let headers: Vec<_> = host.into_iter().chain(authorization).collect();
            for address in [LOCAL, PUBLIC] {
                let found = status((address, token()), &Method::GET, "/status", &headers);
                assert_eq!(found, with_token, "{headers:?}");
                for open in OPEN {
                    let found = status((address, token()), &Method::GET, open, &headers);
                    assert_eq!(found, 200, "{open}");
                }
            }
        }
        let host = [(HOST, "example.org")];
        for (path, expected) in [("/metrics", 200), ("/status", 403), ("/", 403)] {
            let found = status((PUBLIC, None), &Method::GET, path, &host);
            assert_eq!(found, expected, "{path}");
        }
    }
}
