//! The client's side: where a response ends, and how its request fared.

use super::fields::ConnectionOptions;
use crate::skip::{LineSkipper, LineStep, NotAReply, Outcome, ReplyGrammar};

/// Skips the responses to `GET` and `POST`; those to `HEAD` would end elsewhere.
///
/// ```
/// use psp_protocols::http::HttpSkipper;
/// use psp_protocols::skip::{Outcome, ReplySkipper, Skipped};
///
/// let mut skipper = HttpSkipper::default();
/// let response = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone";
/// let found = Skipped::Reply { len: response.len(), outcome: Outcome::Error };
/// assert_eq!(skipper.skip(response), Ok(found));
/// assert_eq!((skipper.error_text(), skipper.error_kind()), ("404 Not Found", "404"));
/// ```
pub type HttpSkipper = LineSkipper<HttpReplies>;

/// The grammar of HTTP/1.x responses.
///
/// 2xx and 3xx are [`Outcome::Done`], 503 is [`Outcome::Busy`], and other statuses are [`Outcome::Error`].
/// Interim responses are part of the response after them. A response without a length ends with its connection:
/// [`ReplySkipper::finish`](crate::skip::ReplySkipper::finish).
#[derive(Debug, Clone, Default)]
pub struct HttpReplies {
    at: At,
    /// The status line from the code on, without the line end.
    status: Vec<u8>,
    code: u16,
    length: Option<u64>,
    chunked: bool,
    is_http10: bool,
    connection: ConnectionOptions,
}

/// The next line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Status,
    Headers,
    ChunkSize,
    Trailers,
}

/// Where the status code begins in its line.
const STATUS_AT: usize = "HTTP/1.1 ".len();
/// Bytes after the data of a chunk.
const CHUNK_END_LEN: u64 = 2;

impl ReplyGrammar for HttpReplies {
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply> {
        match self.at {
            At::Status => self.read_status(line)?,
            At::Headers if line.is_empty() => return self.after_headers(),
            At::Headers => self.read_header(line)?,
            At::ChunkSize => return self.read_chunk_size(line),
            At::Trailers if line.is_empty() => return Ok(LineStep::end(self.outcome())),
            At::Trailers => {}
        }
        Ok(LineStep::NEXT)
    }

    fn closes(&self) -> bool {
        self.connection.closes(self.is_http10)
    }

    fn error_text<'a>(&'a self, _line: &'a [u8]) -> &'a [u8] {
        &self.status
    }
}

impl HttpReplies {
    fn read_status(&mut self, line: &[u8]) -> Result<(), NotAReply> {
        let (version, status) = line.split_at_checked(STATUS_AT).unwrap_or_default();
        self.is_http10 = match version {
            b"HTTP/1.1 " => false,
            b"HTTP/1.0 " => true,
            _ => return Err(NotAReply("no status line of HTTP/1.x")),
        };
        let (code, rest) = status.split_at_checked(3).unwrap_or_default();
        self.code = number(code, 10)
            .filter(|code| (100..1000).contains(code) && (rest.is_empty() || rest[0] == b' '))
            .and_then(|code| u16::try_from(code).ok())
            .ok_or(NotAReply("no status code of three digits"))?;
        self.status.clear();
        if self.code >= 400 {
            self.status.extend_from_slice(status.trim_ascii_end());
        }
        self.at = At::Headers;
        Ok(())
    }

    fn read_header(&mut self, line: &[u8]) -> Result<(), NotAReply> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(NotAReply("a header line has no colon"))?);
        let value = value[1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10).ok_or(NotAReply("the length is not a number"))?;
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.connection.read(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
            if !self.chunked {
                return Err(NotAReply("a transfer coding other than chunked"));
            }
        }
        Ok(())
    }

    fn after_headers(&mut self) -> Result<LineStep, NotAReply> {
        match self.code {
            101 => return Err(NotAReply("a change of protocols")),
            100..200 => {
                *self = Self::default();
                return Ok(LineStep::NEXT);
            }
            204 | 304 => return Ok(LineStep::end(self.outcome())),
            _ => {}
        }
        if self.chunked {
            self.at = At::ChunkSize;
            return Ok(LineStep::NEXT);
        }
        Ok(match self.length {
            Some(length) => LineStep { payload_len: length, end: Some(self.outcome()) },
            None => LineStep::until_end(self.outcome()),
        })
    }

    fn read_chunk_size(&mut self, line: &[u8]) -> Result<LineStep, NotAReply> {
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = number(digits.trim_ascii_end(), 16)
            .filter(|size| *size <= u64::from(u32::MAX))
            .ok_or(NotAReply("the size of a chunk is not a number"))?;
        if size == 0 {
            self.at = At::Trailers;
            return Ok(LineStep::NEXT);
        }
        Ok(LineStep { payload_len: size + CHUNK_END_LEN, end: None })
    }

    const fn outcome(&self) -> Outcome {
        match self.code {
            200..400 => Outcome::Done,
            503 => Outcome::Busy,
            _ => Outcome::Error,
        }
    }
}

/// A number of digits alone.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = str::from_utf8(digits).ok()?;
    let all = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use crate::skip::{ReplySkipper, Skipped};

    use super::*;

    fn skip(response: &str) -> Result<Outcome, NotAReply> {
        match HttpSkipper::default().skip(response.as_bytes())? {
            Skipped::Reply { len, outcome } if len == response.len() => Ok(outcome),
            other => panic!("{response:?}: {other:?}"),
        }
    }

    #[test]
    fn responses_end_where_they_say() {
        let chunked = "Transfer-Encoding: chunked\r\n\r\n";
        for (response, outcome) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Outcome::Done),
            ("HTTP/1.0 200\r\nContent-Length: 2\r\n\r\n\r\n", Outcome::Done),
            ("HTTP/1.1 204 No Content\r\n\r\n", Outcome::Done),
            ("HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", Outcome::Done),
            ("HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\na", Outcome::Error),
            ("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Outcome::Busy),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n", Outcome::Done),
            (&format!("HTTP/1.1 200 OK\r\n{chunked}0\r\n\r\n"), Outcome::Done),
            (
                &format!("HTTP/1.1 500 E\r\n{chunked}A;x\r\n0123456789\r\n1 \r\n\n\r\n0\r\nT: x\r\n\r\n"),
                Outcome::Error,
            ),
        ] {
            assert_eq!(skip(response), Ok(outcome), "{response:?}");
        }
    }

    #[test]
    fn responses_say_whether_their_connection_ends() {
        for (head, closes) in [
            ("HTTP/1.1 200 OK", false),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close", true),
            ("HTTP/1.0 200 OK", true),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive", false),
        ] {
            let mut skipper = HttpSkipper::default();
            let response = format!("{head}\r\nContent-Length: 1\r\n\r\na");
            skipper.skip(response.as_bytes()).unwrap();
            assert_eq!(skipper.closes(), closes, "{head}");
            skipper.skip(b"HTTP/1.1 204 None\r\n\r\n").unwrap();
            assert!(!skipper.closes());
        }
    }

    #[test]
    fn a_response_without_a_length_ends_with_its_connection() {
        for (response, end) in [
            ("HTTP/1.0 200 OK\r\n\r\n", Some(Outcome::Done)),
            ("HTTP/1.1 404 No\r\nA: b\r\n\r\none\r\n\r\n", Some(Outcome::Error)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", None),
            ("HTTP/1.1 200 OK\r\n", None),
            ("", None),
        ] {
            let mut skipper = HttpSkipper::default();
            let skipped = skipper.skip(response.as_bytes());
            assert_eq!(skipped, Ok(Skipped::NeedMore), "{response:?}");
            assert_eq!(skipper.finish(), end, "{response:?}");
            assert_eq!(skipper.closes(), end.is_some());
            assert_eq!(skipper.finish(), None);
        }
    }

    #[test]
    fn other_bytes_are_no_response() {
        for response in [
            "+OK\r\n",
            "HTTP/2 200 OK\r\n",
            "HTTP/1.1 20 OK\r\n",
            "HTTP/1.1 +20 OK\r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000000\r\n",
        ] {
            assert!(skip(response).is_err(), "{response:?}");
        }
    }
}
