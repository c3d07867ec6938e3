//! What is answered in place of a service.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use psp_pool::PoolError;

/// How who asks reads answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A status of HTTP.
    Http,
    /// A status of gRPC, without a message.
    Grpc,
}

impl Dialect {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE);
        match content_type.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc")) {
            true => Self::Grpc,
            false => Self::Http,
        }
    }
}

/// Why a request has no answer of its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue of its type was full.
    Shed,
    /// Its deadline has passed.
    Expired,
    /// The pool has ended.
    Closed,
}

impl Refusal {
    pub(crate) const fn of(error: &PoolError) -> Self {
        match error {
            PoolError::Busy { .. } => Self::Shed,
            PoolError::Expired => Self::Expired,
            _ => Self::Closed,
        }
    }

    /// The answer.
    pub(crate) fn response<B: Default>(self, dialect: Dialect, retry_after: Duration) -> Response<B> {
        match dialect {
            Dialect::Http => self.http(retry_after),
            Dialect::Grpc => self.grpc(),
        }
    }

    fn http<B: Default>(self, retry_after: Duration) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = match self {
            Self::Shed | Self::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Self::Expired => StatusCode::GATEWAY_TIMEOUT,
        };
        if self == Self::Shed {
            // Whole seconds, upwards.
            let part = u64::from(retry_after.subsec_nanos() > 0);
            let seconds = retry_after.as_secs().saturating_add(part);
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// With nothing but headers, which are the trailers at once.
    fn grpc<B: Default>(self) -> Response<B> {
        let (code, message) = match self {
            Self::Shed => ("8", "the queue is full"),
            Self::Expired => ("4", "the deadline has passed"),
            Self::Closed => ("14", "the service ends"),
        };
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        let grpc = HeaderValue::from_static("application/grpc");
        headers.insert(CONTENT_TYPE, grpc);
        let status = HeaderName::from_static("grpc-status");
        headers.insert(status, HeaderValue::from_static(code));
        let text = HeaderName::from_static("grpc-message");
        headers.insert(text, HeaderValue::from_static(message));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(refusal: Refusal, content_type: &'static str) -> Response<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        refusal.response(Dialect::of(&headers), Duration::from_millis(1500))
    }

    #[test]
    fn clients_of_http_get_a_status_and_when_to_come_back() {
        let shed = answered(Refusal::Shed, "application/json");
        assert_eq!(shed.status(), 503);
        assert_eq!(shed.headers()[RETRY_AFTER], "2");
        assert_eq!(answered(Refusal::Expired, "text/html").status(), 504);
        let closed = answered(Refusal::Closed, "text/html");
        assert_eq!(closed.status(), 503);
        assert!(!closed.headers().contains_key(RETRY_AFTER));
    }

    #[test]
    fn clients_of_grpc_get_a_status_without_a_message() {
        let codes = [Refusal::Shed, Refusal::Expired, Refusal::Closed].map(|refusal| {
            let response = answered(refusal, "application/grpc+proto");
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
            assert_eq!(response.body(), "");
            response.headers()["grpc-status"].clone()
        });
        assert_eq!(codes, ["8", "4", "14"]);
    }
}
