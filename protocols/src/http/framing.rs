//! Where a request ends.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

use super::chunks::{ChunkLimits, ChunkScan};
use super::fields::BodyLength;
use super::head::HttpHead;
use super::lines::LineScan;
use super::rejection;
use super::violation::Violation;

/// An empty line, which a client may send before a request.
const EMPTY_LINE_LEN: usize = "\r\n".len();

/// The framing of HTTP/1.1 and HTTP/1.0: one frame is a request with its whole body.
///
/// Requests may be pipelined. A request that breaks the protocol or exceeds a limit is answered with
/// a status that says so, and the connection closes.
///
/// ```
/// use psp_protocols::http::Http;
/// use psp_protocols::{Framing, Step};
///
/// let input = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
/// let step = Http::default().next_frame(&mut Default::default(), input);
/// assert!(matches!(step, Ok(Step::Frame { len: 27, .. })));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Longest request line with its header lines, in bytes; more than 65 535 counts as that.
    /// Trailers are limited alike.
    pub head_bytes_max: usize,
    /// Most header lines; more than 128 counts as that.
    pub headers_max: usize,
    /// Longest body in bytes, without the sizes of its chunks.
    pub body_bytes_max: usize,
}

impl Default for Http {
    /// 16 KiB of head, 64 header lines, 1 MiB of body.
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            headers_max: 64,
            body_bytes_max: 1 << 20,
        }
    }
}

limits! {
    Http: head_bytes_max: usize, headers_max: usize, body_bytes_max: usize,
}

/// How far into a request the stream has been scanned.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpCursor {
    part: Part,
    /// The client waits for `100 Continue`.
    continue_due: bool,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    /// The request line and the header lines.
    Head(LineScan),
    /// A body; the frame ends at `end`.
    Body { head: HttpHead, end: usize },
    /// A body in chunks.
    Chunks { head: HttpHead, scan: ChunkScan },
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(LineScan::default())
    }
}

impl Http {
    fn head_limit(&self) -> usize {
        self.head_bytes_max.min(usize::from(u16::MAX))
    }

    /// The head at the start of `input`; `None` while its end has not arrived.
    fn head<'a>(&self, lines: &mut LineScan, input: &'a [u8]) -> Result<Option<(&'a [u8], usize)>, Violation> {
        let window = &input[..input.len().min(self.head_limit())];
        let mut end = lines.block_end(window)?;
        if end == Some(EMPTY_LINE_LEN) {
            end = lines.block_end(window)?;
        }
        if let Some(end) = end {
            let start = match input.starts_with(b"\r\n") {
                true => EMPTY_LINE_LEN,
                false => 0,
            };
            return Ok(Some((&input[..end], start)));
        }
        if window.len() < self.head_limit() {
            return Ok(None);
        }
        Err(match lines.start() <= EMPTY_LINE_LEN {
            true => Violation::TargetTooLong,
            false => Violation::HeadTooLong,
        })
    }

    /// The next part of a request after its head.
    fn after_head(&self, block: &[u8], start: usize) -> Result<HttpCursor, Violation> {
        let (head, fields) = HttpHead::parse(block, start, self.headers_max)?;
        let part = match fields.body {
            BodyLength::Bytes(len) => {
                let len = usize::try_from(len).ok();
                let len = len.filter(|len| *len <= self.body_bytes_max);
                let end = len.and_then(|len| block.len().checked_add(len));
                let end = end.ok_or(Violation::BodyTooLong)?;
                Part::Body { head, end }
            }
            BodyLength::Chunked => {
                let scan = ChunkScan::starting(block.len());
                Part::Chunks { head, scan }
            }
        };
        Ok(HttpCursor { part, continue_due: fields.expects_continue })
    }

    /// The length of the request at the start of `input` and its head; to go on while its end has not
    /// arrived, with a lower bound of that length.
    fn request(
        &self,
        cursor: &mut HttpCursor,
        input: &[u8],
    ) -> Result<ControlFlow<(usize, HttpHead), usize>, Violation> {
        if let Part::Head(lines) = &mut cursor.part {
            let Some((block, start)) = self.head(lines, input)? else {
                return Ok(ControlFlow::Continue(input.len() + 1));
            };
            *cursor = self.after_head(block, start)?;
        }
        match &mut cursor.part {
            Part::Head(_) => Ok(ControlFlow::Continue(input.len() + 1)),
            Part::Body { head, end } if input.len() >= *end => Ok(ControlFlow::Break((*end, *head))),
            Part::Body { end, .. } => Ok(ControlFlow::Continue(*end)),
            Part::Chunks { head, scan } => {
                let limits = ChunkLimits {
                    body_bytes_max: self.body_bytes_max,
                    overhead_bytes_max: self.head_limit(),
                };
                Ok(match scan.end(input, limits)? {
                    ControlFlow::Break(end) => ControlFlow::Break((end, *head)),
                    ControlFlow::Continue(len_min) => ControlFlow::Continue(len_min),
                })
            }
        }
    }
}

impl Framing for Http {
    type Cursor = HttpCursor;
    type Head = HttpHead;

    fn next_frame(&self, cursor: &mut HttpCursor, input: &[u8]) -> Result<Step<HttpHead>, FrameError> {
        match self.request(cursor, input)? {
            ControlFlow::Break((len, head)) => {
                *cursor = HttpCursor::default();
                Ok(Step::Frame { len, head })
            }
            ControlFlow::Continue(len_min) => Ok(Step::NeedMore { len_min }),
        }
    }

    fn closes_after(&self, _frame: &[u8], head: &HttpHead) -> bool {
        head.closes()
    }

    fn deadline(&self, head: &HttpHead) -> Option<Duration> {
        head.deadline()
    }

    fn encode_interim(&self, cursor: &mut HttpCursor, out: &mut dyn Sink) {
        if std::mem::take(&mut cursor.continue_due) {
            out.put(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        rejection::encode(rejection, self.head_of(request).as_ref(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Http = Http { head_bytes_max: 64, headers_max: 3, body_bytes_max: 10 };

    /// The step without the head.
    fn step(input: &str) -> Result<Step, String> {
        match SMALL.next_frame(&mut HttpCursor::default(), input.as_bytes()) {
            Ok(Step::Frame { len, .. }) => Ok(Step::Frame { len, head: () }),
            Ok(Step::NeedMore { len_min }) => Ok(Step::NeedMore { len_min }),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refused(violation: Violation) -> Result<Step, String> {
        Err(violation.reason().to_owned())
    }

    #[test]
    fn a_frame_is_a_request_with_its_body() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc";
        let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for request in [get, post, chunked, &format!("\r\n{get}")] {
            let len = request.len();
            let frame = Ok(Step::Frame { len, head: () });
            assert_eq!(step(request), frame, "{request:?}");
            assert_eq!(step(&format!("{request}GET")), frame);
            match step(&request[..len - 1]) {
                Ok(Step::NeedMore { len_min }) => assert_eq!(len_min, len, "{request:?}"),
                other => panic!("{request:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn limits_hold() {
        let line = |len: usize| format!("GET /{}", "a".repeat(len - 5));
        let short = step(&line(63));
        assert_eq!(short, Ok(Step::NeedMore { len_min: 64 }));
        assert_eq!(step(&line(64)), refused(Violation::TargetTooLong));
        let ended = format!("{} HTTP/1.1\r\n\r\n", line(64));
        assert_eq!(step(&ended), refused(Violation::TargetTooLong));
        let fields = format!("GET / HTTP/1.1\r\nHost: {}", "a".repeat(64));
        assert_eq!(step(&fields), refused(Violation::HeadTooLong));
        let headers = "GET / HTTP/1.0\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n";
        assert_eq!(step(headers), refused(Violation::TooManyHeaders));
        let body = "GET / HTTP/1.0\r\nContent-Length: 11\r\n\r\n";
        assert_eq!(step(body), refused(Violation::BodyTooLong));
        assert_eq!(step("\r\n\r\n"), refused(Violation::RequestLine));
        assert_eq!(step("GET / HTTP/1.1\n"), refused(Violation::BareLineFeed));
    }

    #[test]
    fn a_client_that_waits_is_told_once_to_go_on() {
        let request = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab";
        let http = Http::default();
        let mut cursor = HttpCursor::default();
        let mut told = Vec::new();
        for len in 1..request.len() {
            let step = http.next_frame(&mut cursor, &request[..len]);
            assert!(matches!(step, Ok(Step::NeedMore { .. })), "{len}");
            http.encode_interim(&mut cursor, &mut told);
            assert_eq!(told.is_empty(), len < request.len() - 2, "{len}");
        }
        assert_eq!(told, b"HTTP/1.1 100 Continue\r\n\r\n");
        let mut cursor = HttpCursor::default();
        let step = http.next_frame(&mut cursor, request);
        assert!(matches!(step, Ok(Step::Frame { .. })));
        http.encode_interim(&mut cursor, &mut told);
        assert_eq!(told.len(), 25);
    }

    #[test]
    fn the_last_request_of_a_connection_says_so() {
        let http = Http::default();
        for (request, closes) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
            ("GET / HTTP/1.0\r\n\r\n", true),
        ] {
            let head = http.head_of(request.as_bytes()).unwrap();
            assert_eq!(http.closes_after(request.as_bytes(), &head), closes);
        }
    }

    #[test]
    fn limits_beyond_the_offsets_of_heads_count_as_these() {
        let http = Http {
            head_bytes_max: usize::MAX,
            headers_max: usize::MAX,
            body_bytes_max: usize::MAX,
        };
        let mut request = b"GET / HTTP/1.0\r\na: ".to_vec();
        request.resize(usize::from(u16::MAX) - 4, b'b');
        request.extend_from_slice(b"\r\n\r\n");
        assert!(http.head_of(&request).is_some());
        request.insert(20, b'b');
        assert!(http.head_of(&request).is_none());
        let headers = |count| format!("GET / HTTP/1.0\r\n{}\r\n", "a:\r\n".repeat(count));
        assert!(http.head_of(headers(128).as_bytes()).is_some());
        assert!(http.head_of(headers(129).as_bytes()).is_none());
        let huge = format!("GET / HTTP/1.0\r\nContent-Length: {}\r\n\r\n", usize::MAX);
        assert_eq!(http.head_of(huge.as_bytes()), None);
    }
}
