//! An answer of the admin port.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

pub(super) const JSON: &str = "application/json";

/// An answer before it is one of HTTP.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    content_type: &'static str,
    /// The name under which a browser keeps it, if it is a file.
    file_name: Option<String>,
    body: Bytes,
}

impl Answer {
    pub(super) fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            file_name: None,
            body: body.into(),
        }
    }

    /// A file of JSON.
    pub(super) fn file(file_name: String, body: Bytes) -> Self {
        Self { file_name: Some(file_name), ..Self::ok(JSON, body) }
    }

    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let mut body = text.into();
        body.push('\n');
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            file_name: None,
            body: body.into(),
        }
    }

    pub(super) fn too_large() -> Self {
        Self::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long")
    }

    pub(super) fn unauthorized() -> Self {
        Self::text(StatusCode::UNAUTHORIZED, "this needs the token of the port")
    }

    pub(super) fn too_slow() -> Self {
        Self::text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            // So that browsers ask for it.
            let basic = HeaderValue::from_static("Basic realm=\"psp\"");
            headers.insert(WWW_AUTHENTICATE, basic);
        }
        let named = { self.file_name }.map(|name| format!("attachment; filename=\"{name}\""));
        // A name that is no header is no name.
        if let Some(Ok(named)) = named.map(HeaderValue::try_from) {
            headers.insert(CONTENT_DISPOSITION, named);
        }
        response
    }
}
