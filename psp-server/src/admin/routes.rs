//! What the admin port answers.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use psp_policy::Policy;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::shared::ServerHandle;
use crate::telemetry::{METRICS_CONTENT_TYPE, SlowRequest, Snapshot, exposition};

const PAGE: &str = include_str!("page.html");
const PATHS: &str = "/ /livez /readyz /metrics /status /policy /trace /slow";
const JSON: &str = "application/json";

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
    fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            file_name: None,
            body: body.into(),
        }
    }

    /// A file of JSON.
    pub(super) fn file(file_name: String, body: Bytes) -> Self {
        Self {
            file_name: Some(file_name),
            ..Self::ok(JSON, body)
        }
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

    pub(super) fn too_slow() -> Self {
        Self::text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let named = { self.file_name }.map(|name| format!("attachment; filename=\"{name}\""));
        // A name that is no header is no name.
        if let Some(Ok(named)) = named.map(HeaderValue::try_from) {
            headers.insert(CONTENT_DISPOSITION, named);
        }
        response
    }
}

/// What `/status` tells.
#[derive(Serialize)]
struct Report<'a> {
    server: &'a str,
    uptime_s: f64,
    ready: bool,
    stopping: bool,
    policy: String,
    topology: String,
    /// All workers, present or absent.
    workers_max: usize,
    #[serde(flatten)]
    snapshot: Snapshot,
}

/// What `/slow` tells.
#[derive(Serialize)]
struct Slow<'a> {
    server: &'a str,
    total: u64,
    requests: Vec<SlowRequest>,
}

/// All that the port knows.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) server: ServerHandle,
    pub(super) name: String,
    /// The one trace that there may be.
    pub(super) traces: Arc<Semaphore>,
    /// The port is one of the loopback interface.
    is_local: bool,
}

impl Routes {
    pub(super) fn new(server: ServerHandle, address: SocketAddr) -> Self {
        Self {
            server,
            name: program_name(),
            traces: Arc::new(Semaphore::new(1)),
            is_local: address.ip().is_loopback(),
        }
    }

    /// Answers a request of this head and body.
    pub(super) fn answer(&self, head: &Parts, body: &[u8]) -> Answer {
        if let Err(misdirected) = self.admit(head) {
            return misdirected;
        }
        let is_put = head.method == Method::PUT;
        if is_put && head.uri.path() == "/policy" {
            return self.set_policy(body);
        }
        if head.method != Method::GET {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "use GET, or PUT /policy");
        }
        match head.uri.path() {
            "/" => Answer::ok("text/html; charset=utf-8", PAGE),
            "/livez" => self.liveness(),
            "/readyz" => self.readiness(),
            "/metrics" => Answer::ok(
                METRICS_CONTENT_TYPE,
                exposition(&self.server.snapshot(), &self.name),
            ),
            "/status" => Answer::ok(JSON, self.status()),
            "/slow" => Answer::ok(JSON, self.slow()),
            "/policy" => Answer::text(StatusCode::OK, self.server.policy().spelled()),
            _ => Answer::text(StatusCode::NOT_FOUND, format!("there are {PATHS}")),
        }
    }

    /// Refuses requests that name the port in another way than they may.
    pub(super) fn admit(&self, head: &Parts) -> Result<(), Answer> {
        if self.is_local && !names_address(head) {
            return Err(Answer::text(
                StatusCode::MISDIRECTED_REQUEST,
                "this port is known by its address and as localhost alone",
            ));
        }
        Ok(())
    }

    fn slow(&self) -> String {
        let slow = Slow {
            server: &self.name,
            total: self.server.slow_requests_total(),
            requests: self.server.slow_requests(),
        };
        serde_json::to_string(&slow).expect("all keys are strings")
    }

    fn liveness(&self) -> Answer {
        match self.server.stalled() {
            Some(stall) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, stall),
            None => Answer::text(StatusCode::OK, "alive"),
        }
    }

    fn readiness(&self) -> Answer {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        if self.server.is_leaving() {
            Answer::text(unavailable, "draining")
        } else if self.server.is_ready() {
            Answer::text(StatusCode::OK, "ready")
        } else {
            Answer::text(unavailable, "starting")
        }
    }

    fn status(&self) -> String {
        let server = &self.server;
        let report = Report {
            server: &self.name,
            uptime_s: server.uptime().as_secs_f64(),
            ready: server.is_ready(),
            stopping: server.is_stopping(),
            policy: server.policy().spelled(),
            topology: server.topology().to_string(),
            workers_max: server.workers(),
            snapshot: server.snapshot(),
        };
        serde_json::to_string(&report).expect("all keys are strings")
    }

    fn set_policy(&self, body: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(body);
        let policy = match Policy::from_str(text.trim()) {
            Ok(policy) => policy,
            Err(error) => return Answer::text(StatusCode::BAD_REQUEST, error.to_string()),
        };
        match self.server.set_policy(policy) {
            Ok(()) => Answer::text(StatusCode::OK, self.server.policy().spelled()),
            Err(error) => Answer::text(StatusCode::CONFLICT, error.to_string()),
        }
    }
}

/// The name of the program that runs.
fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem());
    name.map_or_else(
        || "psp".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Whether a request names its host by an address or as `localhost`, or not at all.
fn names_address(head: &Parts) -> bool {
    let Some(host) = head.headers.get(HOST) else {
        return true;
    };
    let Ok(authority) = host.to_str().map(str::parse::<hyper::http::uri::Authority>) else {
        return false;
    };
    authority.is_ok_and(|authority| {
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn hosts_are_addresses_or_localhost() {
        let is_known = |host: &str| {
            let (head, ()) = Request::builder()
                .header(HOST, host)
                .body(())
                .unwrap()
                .into_parts();
            names_address(&head)
        };
        for known in [
            "127.0.0.1",
            "127.0.0.1:9100",
            "[::1]:9100",
            "localhost:1",
            "LOCALHOST",
        ] {
            assert!(is_known(known), "{known}");
        }
        for other in [
            "example.org",
            "localhost.example.org:9100",
            "127.0.0.1.example.org",
            "",
            "a b",
        ] {
            assert!(!is_known(other), "{other}");
        }
        let (head, ()) = Request::builder().body(()).unwrap().into_parts();
        assert!(names_address(&head), "HTTP/1.0 names no host");
    }
}
