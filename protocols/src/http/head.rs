//! What the framing keeps of a request: its method, and where its parts are.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Duration;

use super::fields::{BodyLength, Fields};
use super::method::Method;
use super::target;
use super::violation::Violation;

/// Most header lines that any limit allows.
pub(super) const HEADERS_CEILING: usize = 128;

/// After the target: a space, `HTTP/1.x` and the line end.
const VERSION_LEN: usize = " HTTP/1.1\r\n".len();

/// Method, path and version of one request, and offsets of its parts in its frame.
///
/// [`Http`](super::Http) makes it while it looks for the end of the request.
/// [`HttpRequest`](super::HttpRequest) reads a frame by it without parsing the frame again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpHead {
    method: Method,
    is_http10: bool,
    closes: bool,
    chunked: bool,
    /// Where the method begins.
    start: u16,
    target_start: u16,
    path_start: u16,
    path_end: u16,
    query_start: u16,
    target_end: u16,
    /// Where the body begins, after the empty line.
    body_start: u16,
    within_us: u32,
}

const _: () = assert!(size_of::<HttpHead>() == 24);

impl HttpHead {
    /// Reads the head that ends with `block`, whose request line begins at `start`.
    ///
    /// `block` is at most [`u16::MAX`] bytes long, so that offsets fit.
    pub(super) fn parse(block: &[u8], start: usize, headers_max: usize) -> Result<(Self, Fields), Violation> {
        let mut places = [const { MaybeUninit::uninit() }; HEADERS_CEILING];
        let places = &mut places[..headers_max.min(HEADERS_CEILING)];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(&block[start..], places);
        let (Ok(httparse::Status::Complete(_)), Some(method_name), Some(target), Some(minor)) =
            (parsed, request.method, request.path, request.version)
        else {
            return Err(violation_of(parsed));
        };
        let fields = Fields::read(request.headers, minor)?;
        let method = Method::of(method_name.as_bytes());
        let (path, query) = target::split(method, target).ok_or(Violation::Target)?;
        let target_start = start + method_name.len() + 1;
        // No offset is beyond the block's length.
        let place = |offset: usize| offset as u16;
        let head = Self {
            method,
            is_http10: minor == 0,
            closes: fields.closes,
            chunked: fields.body == BodyLength::Chunked,
            start: place(start),
            target_start: place(target_start),
            path_start: place(target_start + path.start),
            path_end: place(target_start + path.end),
            query_start: place(target_start + query.start),
            target_end: place(target_start + target.len()),
            body_start: place(block.len()),
            within_us: fields.within_us,
        };
        Ok((head, fields))
    }

    /// The method.
    #[inline]
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// Whether the request is in HTTP/1.0 rather than HTTP/1.1.
    #[must_use]
    pub const fn is_http10(&self) -> bool {
        self.is_http10
    }

    /// Whether the connection closes after this request: `Connection: close`, or HTTP/1.0 without
    /// `Connection: keep-alive`.
    #[must_use]
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// How long the client waits for the response, by the shorter one of `grpc-timeout` and
    /// `X-Envoy-Expected-Rq-Timeout-Ms`; `None` without one that is above 0 and below 71 minutes.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        (self.within_us > 0).then(|| Duration::from_micros(self.within_us.into()))
    }

    /// The path as the client wrote it, percent-encoded and without the query; `/` for an absolute target
    /// without a path.
    ///
    /// `frame` is the frame that this head was made for. With another frame the path is wrong or empty, and
    /// nothing worse.
    #[inline]
    #[must_use]
    pub fn path<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        match part(frame, self.path_start, self.path_end) {
            b"" => b"/",
            path => path,
        }
    }

    #[inline]
    pub(super) fn query<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        part(frame, self.query_start, self.target_end)
    }

    #[inline]
    pub(super) fn target<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        part(frame, self.target_start, self.target_end)
    }

    /// The name of the method in `frame`.
    #[inline]
    #[must_use]
    pub fn method_name<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        part(frame, self.start, self.target_start.saturating_sub(1))
    }

    /// The header lines, each with its line end.
    pub(super) fn header_lines<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let Range { start, end } = Range {
            start: usize::from(self.target_end) + VERSION_LEN,
            end: usize::from(self.body_start).saturating_sub(2),
        };
        frame.get(start..end).unwrap_or_default()
    }

    /// The body as it arrived, and whether that is in chunks.
    pub(super) fn body<'a>(&self, frame: &'a [u8]) -> (&'a [u8], bool) {
        let start = usize::from(self.body_start);
        (frame.get(start..).unwrap_or_default(), self.chunked)
    }
}

#[inline]
fn part(frame: &[u8], start: u16, end: u16) -> &[u8] {
    let range = usize::from(start)..usize::from(end);
    frame.get(range).unwrap_or_default()
}

#[cold]
fn violation_of(parsed: httparse::Result<usize>) -> Violation {
    use httparse::Error;
    match parsed {
        Err(Error::HeaderName | Error::HeaderValue) => Violation::HeaderLine,
        Err(Error::TooManyHeaders) => Violation::TooManyHeaders,
        Err(Error::Version) => Violation::Version,
        _ => Violation::RequestLine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(block: &str) -> Result<HttpHead, Violation> {
        HttpHead::parse(block.as_bytes(), 0, 4).map(|(head, _)| head)
    }

    #[test]
    fn parts_are_where_the_head_says() {
        let block = "GET /a/b?c=d HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
        let head = parse(block).unwrap();
        let frame = block.as_bytes();
        assert_eq!((head.method(), head.is_http10()), (Method::Get, false));
        assert_eq!(head.method_name(frame), b"GET");
        assert_eq!((head.path(frame), head.query(frame)), (&b"/a/b"[..], &b"c=d"[..]));
        assert_eq!(head.target(frame), b"/a/b?c=d");
        assert_eq!(head.header_lines(frame), b"Host: x\r\nA: b\r\n");
        assert_eq!(head.body(frame), (&b""[..], false));
        for other in [&b""[..], b"GET", &frame[..20]] {
            assert!(head.header_lines(other).is_empty() && head.body(other).0.is_empty());
            assert!(head.path(other).len() <= other.len().max(1));
        }
    }

    #[test]
    fn the_shorter_timeout_of_a_request_is_its_deadline() {
        for (fields, us) in [
            ("", None),
            ("grpc-timeout: 20m\r\n", Some(20_000)),
            ("Grpc-Timeout: 1500n\r\n", Some(2)),
            ("grpc-timeout: 1H\r\n", Some(3_600_000_000)),
            ("grpc-timeout: 2H\r\n", None),
            ("grpc-timeout: 0S\r\n", Some(1)),
            ("grpc-timeout: 5s\r\n", None),
            ("grpc-timeout: S\r\n", None),
            ("X-Envoy-Expected-Rq-Timeout-Ms: 15\r\n", Some(15_000)),
            ("x-envoy-expected-rq-timeout-ms: 0\r\n", None),
            ("x-envoy-expected-rq-timeout-ms: soon\r\n", None),
            ("grpc-timeout: 1S\r\nX-Envoy-Expected-Rq-Timeout-Ms: 7\r\n", Some(7_000)),
            ("X-Envoy-Expected-Rq-Timeout-Ms: 7000\r\ngrpc-timeout: 1S\r\n", Some(1_000_000)),
        ] {
            let head = parse(&format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")).unwrap();
            assert_eq!(head.deadline(), us.map(Duration::from_micros), "{fields}");
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        for (block, violation) in [
            ("GET  / HTTP/1.1\r\n\r\n", Violation::RequestLine),
            ("GET /\r\n\r\n", Violation::RequestLine),
            ("GET / HTTP/1.1 \r\n\r\n", Violation::RequestLine),
            ("G(T / HTTP/1.1\r\n\r\n", Violation::RequestLine),
            ("\r\n", Violation::RequestLine),
            ("GET / HTTP/1.2\r\n\r\n", Violation::Version),
            ("PRI * HTTP/2.0\r\n\r\n", Violation::Version),
            ("GET x HTTP/1.0\r\n\r\n", Violation::Target),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Violation::HeaderLine),
            ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", Violation::HeaderLine),
            ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Violation::HeaderLine),
            ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Violation::HeaderLine),
            ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", Violation::HeaderLine),
            ("GET / HTTP/1.1\r\nHost\r\n\r\n", Violation::HeaderLine),
            (
                "GET / HTTP/1.1\r\na: 1\r\na: 2\r\na: 3\r\na: 4\r\na: 5\r\n\r\n",
                Violation::TooManyHeaders,
            ),
        ] {
            assert_eq!(parse(block), Err(violation), "{block:?}");
        }
    }
}
