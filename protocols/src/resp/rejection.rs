//! Refusals as RESP error lines.

use crate::framing::Rejection;
use crate::sink::Sink;

use super::encoder::{Encoder, Version};
use super::header::multibulk_header;
use super::inline::Words;

/// Writes the error line for `rejection`; nothing for a request without arguments. A client that
/// sent an empty line expects no reply, and would take this one for the reply to its next request.
pub(super) fn encode(rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
    if !request.is_empty() && has_no_arguments(request) {
        return;
    }
    let mut encoder = Encoder::new(out, Version::Resp2);
    match rejection {
        Rejection::Busy { type_name } => {
            encoder.error_parts(&["BUSY typed queue of '", type_name, "' is full"]);
        }
        Rejection::Overloaded { .. } => encoder.error("OVERLOADED try again later"),
        Rejection::HandlerFailed => encoder.error("ERR internal error"),
        Rejection::Failed(text) => encoder.error_parts(&["ERR ", text]),
        Rejection::ReplyTooLarge { limit_bytes } => {
            let mut digits = itoa::Buffer::new();
            encoder.error_parts(&["ERR reply is larger than the limit of ", digits.format(*limit_bytes), " bytes"]);
        }
        Rejection::Malformed(error) => encoder.error_parts(&["ERR ", &error.reason]),
        Rejection::TooManyConnections => encoder.error("ERR max number of clients reached"),
        Rejection::Refused(reason) => encoder.error_parts(&["DENIED ", reason]),
        Rejection::OutOfBuffers => {
            encoder.error("OOM the server's budget for buffered bytes is exhausted");
        }
        Rejection::ShuttingDown => encoder.error("ERR server is shutting down"),
        Rejection::Expired => encoder.error("ERR the request waited too long"),
    }
}

fn has_no_arguments(request: &[u8]) -> bool {
    match request.first() {
        Some(b'*') => matches!(multibulk_header(request), Ok(Some(header)) if header.value <= 0),
        _ => Words::new(request).next().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::framing::{FrameError, Framing};
    use crate::resp::Resp;

    use super::*;

    fn encoded(rejection: &Rejection<'_>, request: &[u8]) -> String {
        let mut out = Vec::new();
        Resp::default().encode_rejection(rejection, request, &mut out);
        String::from_utf8(out).expect("error lines are text")
    }

    #[test]
    fn every_rejection_is_one_error_line() {
        let malformed = FrameError { reason: "Protocol error: bad\r\n+OK".into() };
        let cases = [
            (Rejection::Busy { type_name: "scan" }, "-BUSY typed queue of 'scan' is full\r\n"),
            (
                Rejection::Overloaded { type_name: "scan", retry_after: Duration::ZERO },
                "-OVERLOADED try again later\r\n",
            ),
            (Rejection::HandlerFailed, "-ERR internal error\r\n"),
            (Rejection::Failed("no disk\r\n+OK"), "-ERR no disk  +OK\r\n"),
            (
                Rejection::ReplyTooLarge { limit_bytes: 512 },
                "-ERR reply is larger than the limit of 512 bytes\r\n",
            ),
            (Rejection::Malformed(&malformed), "-ERR Protocol error: bad  +OK\r\n"),
            (Rejection::TooManyConnections, "-ERR max number of clients reached\r\n"),
            (Rejection::Refused("not from\r\nthere"), "-DENIED not from  there\r\n"),
            (Rejection::OutOfBuffers, "-OOM the server's budget for buffered bytes is exhausted\r\n"),
            (Rejection::ShuttingDown, "-ERR server is shutting down\r\n"),
            (Rejection::Expired, "-ERR the request waited too long\r\n"),
        ];
        for (rejection, line) in cases {
            assert_eq!(encoded(&rejection, b"PING\r\n"), line);
            assert_eq!(encoded(&rejection, b""), line);
        }
    }

    #[test]
    fn a_request_without_arguments_gets_no_reply() {
        for request in [&b"\r\n"[..], b"*0\r\n"] {
            assert_eq!(encoded(&Rejection::Busy { type_name: "a" }, request), "");
        }
    }
}
