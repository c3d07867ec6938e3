//! Writes one response.

use bytes::Bytes;

use crate::sink::Sink;

use super::head::HttpHead;
use super::method::Method;
use super::status::Status;

/// A response that is being written: the status line and header lines are, the body is to come.
///
/// The response says whether the connection closes, as the request's head demands, and how long the body is.
/// A response to `HEAD`, and one with status 204 or 304, has no body. Nothing is allocated.
///
/// ```
/// use psp_protocols::Framing;
/// use psp_protocols::http::{Http, Response, Status};
///
/// let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// let head = Http::default().head_of(request).unwrap();
/// let mut out = Vec::new();
/// Response::new(&mut out, &head, Status::OK)
///     .header("Content-Type", "text/plain")
///     .body(b"hello");
/// let expected = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\
///                 Content-Length: 5\r\n\r\nhello";
/// assert_eq!(out, expected.as_bytes());
/// ```
#[must_use = "a response ends with its body"]
pub struct Response<'a> {
    out: &'a mut dyn Sink,
    status: Status,
    /// Whether the request has the method `HEAD`.
    to_head: bool,
}

impl<'a> Response<'a> {
    /// Begins the response to the request with this head.
    pub fn new(out: &'a mut dyn Sink, head: &HttpHead, status: Status) -> Self {
        let to_head = head.method() == Method::Head;
        let response = Self::begin(out, status, to_head);
        match (head.closes(), head.is_http10()) {
            (true, _) => response.header("Connection", "close"),
            (false, true) => response.header("Connection", "keep-alive"),
            (false, false) => response,
        }
    }

    /// Begins the response to a request that could not be read, after which the connection closes.
    pub(super) fn to_nothing(out: &'a mut dyn Sink, status: Status) -> Self {
        Self::begin(out, status, false).header("Connection", "close")
    }

    fn begin(out: &'a mut dyn Sink, status: Status, to_head: bool) -> Self {
        let mut digits = itoa::Buffer::new();
        out.put(b"HTTP/1.1 ");
        out.put(digits.format(status.code()).as_bytes());
        out.put(b" ");
        out.put(status.phrase().as_bytes());
        out.put(b"\r\n");
        Self { out, status, to_head }
    }

    /// Writes a header line. Control characters in the value become spaces, so that a value cannot begin
    /// another line.
    pub fn header(self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.out.put(name.as_bytes());
        self.out.put(b": ");
        let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        for (index, piece) in value.as_ref().split(is_control).enumerate() {
            if index > 0 {
                self.out.put(b" ");
            }
            self.out.put(piece);
        }
        self.out.put(b"\r\n");
        self
    }

    /// Ends the response with a body, which may be empty.
    pub fn body(self, body: &[u8]) {
        self.parts(&[body]);
    }

    /// Ends the response with a body that the output may share instead of copying it.
    pub fn shared_body(mut self, body: Bytes) {
        if self.begin_body(body.len()) {
            self.out.put_shared(body);
        }
    }

    /// Ends the response with text: `Content-Type: text/plain; charset=utf-8`.
    pub fn text(self, text: &str) {
        self.text_parts(&[text]);
    }

    /// Ends the response with text in several parts.
    pub(super) fn text_parts(self, parts: &[&str]) {
        self.header("Content-Type", "text/plain; charset=utf-8").parts(parts);
    }

    fn parts(mut self, parts: &[impl AsRef<[u8]>]) {
        let len = parts.iter().map(|part| part.as_ref().len()).sum();
        if self.begin_body(len) {
            parts.iter().for_each(|part| self.out.put(part.as_ref()));
        }
    }

    /// Ends the header lines. Whether a body follows.
    fn begin_body(&mut self, len: usize) -> bool {
        if self.status.has_body() {
            let mut digits = itoa::Buffer::new();
            self.out.put(b"Content-Length: ");
            self.out.put(digits.format(len).as_bytes());
            self.out.put(b"\r\n");
        }
        self.out.put(b"\r\n");
        self.status.has_body() && !self.to_head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::http::Http;

    fn respond(request: &str, status: Status, write: impl FnOnce(Response<'_>)) -> String {
        let head = Http::default().head_of(request.as_bytes()).unwrap();
        let mut out = Vec::new();
        write(Response::new(&mut out, &head, status));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_some_responses_have_a_body() {
        let (ok, none) = (Status::OK, Status::NO_CONTENT);
        for (method, status, expected) in [
            ("GET", ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            ("HEAD", ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
            ("GET", none, "HTTP/1.1 204 No Content\r\n\r\n"),
        ] {
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            let copied = respond(&request, status, |response| response.body(b"hi"));
            assert_eq!(copied, expected);
            let shared = Bytes::from_static(b"hi");
            let shared = respond(&request, status, |response| response.shared_body(shared));
            assert_eq!(shared, expected);
        }
        let text = respond("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ok, |response| response.text("hi"));
        assert!(text.ends_with("text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nhi"), "{text}");
    }

    #[test]
    fn clients_are_told_whether_the_connection_stays_open() {
        for (head, connection) in [
            ("HTTP/1.1\r\nHost: a\r\n", ""),
            ("HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", "Connection: close\r\n"),
            ("HTTP/1.0\r\n", "Connection: close\r\n"),
            ("HTTP/1.0\r\nConnection: keep-alive\r\n", "Connection: keep-alive\r\n"),
        ] {
            let request = format!("GET / {head}\r\n");
            let expected = format!("HTTP/1.1 200 OK\r\n{connection}Content-Length: 0\r\n\r\n");
            let written = respond(&request, Status::OK, |response| response.body(b""));
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn values_begin_no_other_line() {
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let written = respond(request, Status::FOUND, |response| {
            response.header("Location", "/a\r\nSet-Cookie: b\tc").body(b"");
        });
        let expected = "HTTP/1.1 302 Found\r\nLocation: /a  Set-Cookie: b\tc\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(written, expected);
    }
}
