//! A request as a handler sees it.

use std::borrow::Cow;

use super::chunks::BodyPieces;
use super::head::HttpHead;
use super::method::Method;

/// One request: its frame, and the head that tells where the parts are.
///
/// ```
/// use psp_protocols::Framing;
/// use psp_protocols::http::{Http, HttpRequest, Method};
///
/// let frame = b"POST /add?to=list HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nmilk";
/// let head = Http::default().head_of(frame).unwrap();
/// let request = HttpRequest::new(frame, &head);
/// assert_eq!((request.method(), request.path()), (Method::Post, "/add"));
/// assert_eq!(request.query_value("to"), Some("list"));
/// assert_eq!(request.header("host"), Some(&b"a"[..]));
/// assert_eq!(&*request.body(), b"milk");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    frame: &'a [u8],
    head: HttpHead,
}

impl<'a> HttpRequest<'a> {
    /// The request in `frame`, whose head is `head`. With the head of another frame its parts are wrong or
    /// empty, and nothing worse.
    #[must_use]
    pub const fn new(frame: &'a [u8], head: &HttpHead) -> Self {
        Self { frame, head: *head }
    }

    /// Its head.
    #[must_use]
    pub const fn head(&self) -> &HttpHead {
        &self.head
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.head.method()
    }

    /// The method's name, case-sensitive.
    #[must_use]
    pub fn method_name(&self) -> &'a str {
        text(self.head.method_name(self.frame))
    }

    /// The request target as the client wrote it.
    #[must_use]
    pub fn target(&self) -> &'a str {
        text(self.head.target(self.frame))
    }

    /// The path, percent-encoded; see [`HttpHead::path`].
    #[must_use]
    pub fn path(&self) -> &'a str {
        text(self.head.path(self.frame))
    }

    /// What follows the `?`, percent-encoded; empty without one.
    #[must_use]
    pub fn query(&self) -> &'a str {
        text(self.head.query(self.frame))
    }

    /// The names and values of the query, percent-encoded.
    #[must_use]
    pub fn query_pairs(&self) -> QueryPairs<'a> {
        QueryPairs { rest: self.query() }
    }

    /// The first value of this name in the query, percent-encoded.
    #[must_use]
    pub fn query_value(&self, name: &str) -> Option<&'a str> {
        self.query_pairs().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// The header lines, in their order.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        Headers { rest: self.head.header_lines(self.frame) }
    }

    /// The value of the first header line of this name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers()
            .find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The body; copied only if it arrived in several chunks.
    #[must_use]
    pub fn body(&self) -> Cow<'a, [u8]> {
        let mut pieces = self.body_pieces();
        let first = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else {
            return Cow::Borrowed(first);
        };
        let mut body = [first, second].concat();
        pieces.for_each(|piece| body.extend_from_slice(piece));
        Cow::Owned(body)
    }

    /// The body, one piece or the data of each chunk.
    #[must_use]
    pub fn body_pieces(&self) -> BodyPieces<'a> {
        let (body, chunked) = self.head.body(self.frame);
        BodyPieces::new(body, chunked)
    }
}

/// Text in a frame of which the framing has checked that it is text.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// Names and values of header lines. See [`HttpRequest::headers`].
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let (line, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        let colon = memchr::memchr(b':', line)?;
        Some((text(&line[..colon]), line[colon + 1..].trim_ascii()))
    }
}

/// Names and values of a query. See [`HttpRequest::query_pairs`].
#[derive(Debug, Clone)]
pub struct QueryPairs<'a> {
    rest: &'a str,
}

impl<'a> Iterator for QueryPairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (pair, rest) = self.rest.split_once('&').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(pair.split_once('=').unwrap_or((pair, "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::http::Http;

    fn with<T>(frame: &str, see: impl FnOnce(HttpRequest<'_>) -> T) -> T {
        let head = Http::default().head_of(frame.as_bytes());
        see(HttpRequest::new(frame.as_bytes(), &head.expect("a whole request")))
    }

    #[test]
    fn header_lines_are_names_and_values() {
        let frame = "BREW http://pot/tea HTTP/1.1\r\nHost: pot\r\nX-Empty:\r\nA:\t b: c \r\na: d\r\n\r\n";
        with(frame, |request| {
            let headers: Vec<_> = request.headers().collect();
            let expected = [("Host", &b"pot"[..]), ("X-Empty", b""), ("A", b"b: c"), ("a", b"d")];
            assert_eq!(headers, expected);
            assert_eq!(request.header("a"), Some(&b"b: c"[..]));
            assert_eq!(request.header("b"), None);
            assert_eq!((request.method(), request.method_name()), (Method::Other, "BREW"));
            assert_eq!((request.target(), request.path()), ("http://pot/tea", "/tea"));
        });
    }

    #[test]
    fn queries_are_names_and_values() {
        with("GET /?a=1&b&=c&&a=2 HTTP/1.0\r\n\r\n", |request| {
            let pairs: Vec<_> = request.query_pairs().collect();
            let expected = [("a", "1"), ("b", ""), ("", "c"), ("", ""), ("a", "2")];
            assert_eq!(pairs, expected);
            assert_eq!(request.query_value("a"), Some("1"));
            assert_eq!(request.query_value("c"), None);
        });
    }

    #[test]
    fn bodies_are_copied_only_from_several_chunks() {
        let post = "POST / HTTP/1.1\r\nHost: a\r\n";
        for (rest, body, copied) in [
            ("\r\n", "", false),
            ("Content-Length: 3\r\n\r\nabc", "abc", false),
            ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", false),
            ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", false),
            (
                "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\nT: x\r\n\r\n",
                "abc",
                true,
            ),
        ] {
            with(&format!("{post}{rest}"), |request| {
                let found = request.body();
                assert_eq!(&*found, body.as_bytes());
                assert_eq!(matches!(found, Cow::Owned(_)), copied, "{rest:?}");
            });
        }
    }
}
