//! Refusals as responses.

use crate::framing::Rejection;
use crate::sink::Sink;

use super::head::HttpHead;
use super::response::Response;
use super::status::Status;

/// Writes the response for `rejection`. Without the head of a request the connection closes.
pub(super) fn encode(rejection: &Rejection<'_>, head: Option<&HttpHead>, out: &mut dyn Sink) {
    let mut respond = |status, parts: &[&str]| {
        let response = match head {
            Some(head) => Response::new(out, head, status),
            None => Response::to_nothing(out, status),
        };
        match rejection {
            Rejection::Overloaded { retry_after, .. } => {
                let mut digits = itoa::Buffer::new();
                let seconds = retry_after.as_secs_f64().ceil() as u64;
                response.header("Retry-After", digits.format(seconds)).text_parts(parts);
            }
            _ => response.text_parts(parts),
        }
    };
    let unavailable = Status::SERVICE_UNAVAILABLE;
    match rejection {
        Rejection::Busy { type_name } => {
            respond(unavailable, &["typed queue of '", type_name, "' is full\n"]);
        }
        Rejection::Overloaded { type_name, .. } => {
            respond(unavailable, &["overloaded: no further requests of type '", type_name, "' for now\n"]);
        }
        Rejection::HandlerFailed => {
            respond(Status::INTERNAL_SERVER_ERROR, &["the handler failed\n"]);
        }
        Rejection::Failed(text) => respond(Status::INTERNAL_SERVER_ERROR, &[text, "\n"]),
        Rejection::ReplyTooLarge { limit_bytes } => {
            let mut digits = itoa::Buffer::new();
            let limit = digits.format(*limit_bytes);
            let parts = ["the response is larger than the limit of ", limit, " bytes\n"];
            respond(Status::INTERNAL_SERVER_ERROR, &parts);
        }
        Rejection::Malformed(error) => {
            let (status, reason) = status_and_reason(&error.reason);
            respond(status, &[reason, "\n"]);
        }
        Rejection::TooManyConnections => respond(unavailable, &["too many connections\n"]),
        Rejection::Refused(reason) => respond(Status::FORBIDDEN, &[reason, "\n"]),
        Rejection::OutOfBuffers => respond(unavailable, &["out of buffers\n"]),
        Rejection::ShuttingDown => respond(unavailable, &["shutting down\n"]),
        Rejection::Expired => respond(unavailable, &["the request waited too long\n"]),
    }
}

/// The status code that `reason` begins with, and the rest; 400 if it begins with none.
fn status_and_reason(reason: &str) -> (Status, &str) {
    reason
        .split_once(' ')
        .and_then(|(code, words)| Some((Status::new(code.parse().ok()?)?, words)))
        .unwrap_or((Status::BAD_REQUEST, reason))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::framing::{FrameError, Framing};
    use crate::http::Http;
    use crate::http::violation::Violation;

    use super::*;

    fn encoded(rejection: &Rejection<'_>, request: &str) -> String {
        let mut out = Vec::new();
        Http::default().encode_rejection(rejection, request.as_bytes(), &mut out);
        String::from_utf8(out).expect("responses are text")
    }

    #[test]
    fn every_rejection_has_a_status() {
        let malformed = FrameError::from(Violation::HeadTooLong);
        let unknown = FrameError::new("other words");
        for (rejection, status, words) in [
            (
                Rejection::Busy { type_name: "slow" },
                "503 Service Unavailable",
                "typed queue of 'slow' is full",
            ),
            (Rejection::HandlerFailed, "500 Internal Server Error", "the handler failed"),
            (Rejection::Failed("no disk"), "500 Internal Server Error", "no disk"),
            (
                Rejection::ReplyTooLarge { limit_bytes: 5 },
                "500 Internal Server Error",
                "the response is larger than the limit of 5 bytes",
            ),
            (
                Rejection::Malformed(&malformed),
                "431 Request Header Fields Too Large",
                "the header section is too long",
            ),
            (Rejection::Malformed(&unknown), "400 Bad Request", "other words"),
            (Rejection::TooManyConnections, "503 Service Unavailable", "too many connections"),
            (Rejection::Refused("not from there"), "403 Forbidden", "not from there"),
            (Rejection::OutOfBuffers, "503 Service Unavailable", "out of buffers"),
            (Rejection::ShuttingDown, "503 Service Unavailable", "shutting down"),
            (Rejection::Expired, "503 Service Unavailable", "the request waited too long"),
        ] {
            let len = words.len() + 1;
            let fields = format!("Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\r\n");
            let closing = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{fields}{words}\n");
            assert_eq!(encoded(&rejection, ""), closing);
            let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            let open = format!("HTTP/1.1 {status}\r\n{fields}{words}\n");
            assert_eq!(encoded(&rejection, get), open);
            let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
            assert_eq!(encoded(&rejection, head), format!("HTTP/1.1 {status}\r\n{fields}"));
        }
    }

    #[test]
    fn who_is_refused_under_overload_is_told_when_to_come_again() {
        for (retry_after, seconds) in [(Duration::from_nanos(1), 1), (Duration::from_millis(1_001), 2)] {
            let reply = encoded(
                &Rejection::Overloaded { type_name: "slow", retry_after },
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            );
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
            assert!(head.contains(&format!("\r\nRetry-After: {seconds}\r\n")), "{head}");
            assert_eq!(body, "overloaded: no further requests of type 'slow' for now\n");
        }
    }

    #[test]
    fn every_violation_begins_with_a_status_that_has_a_name() {
        for violation in Violation::ALL {
            let (status, words) = status_and_reason(violation.reason());
            assert!((400..600).contains(&status.code()), "{violation:?}");
            assert!(!status.phrase().is_empty() && !words.is_empty());
        }
    }
}
