//! What the admin port answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::access::Access;
use super::answer::{Answer, JSON};
use crate::shared::ServerHandle;
use crate::telemetry::{METRICS_CONTENT_TYPE, SlowRequest, Snapshot, exposition};

const PAGE: &str = include_str!("page.html");
const PATHS: &str = "/ /livez /readyz /metrics /status /policy /trace /slow";

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
    access: Access,
}

impl Routes {
    pub(super) fn new(server: ServerHandle, access: Access) -> Self {
        Self {
            server,
            name: program_name(),
            traces: Arc::new(Semaphore::new(1)),
            access,
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
            "/metrics" => Answer::ok(METRICS_CONTENT_TYPE, self.metrics()),
            "/status" => Answer::ok(JSON, self.status()),
            "/slow" => Answer::ok(JSON, self.slow()),
            "/policy" => Answer::text(StatusCode::OK, self.server.policy().spelled()),
            _ => Answer::text(StatusCode::NOT_FOUND, format!("there are {PATHS}")),
        }
    }

    /// Refuses what a request may not have.
    pub(super) fn admit(&self, head: &Parts) -> Result<(), Answer> {
        self.access.admit(head)
    }

    fn metrics(&self) -> String {
        let mut text = exposition(&self.server.snapshot(), &self.name);
        // If the program's function panics, its figures are missing. The server's are served all the same.
        let more = catch_unwind(AssertUnwindSafe(|| self.server.more_metrics()));
        text.push_str(&more.ok().flatten().unwrap_or_default());
        text
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
        let policy = match self.server.parse_policy(&text) {
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
    name.map_or_else(|| "psp".to_owned(), |name| name.to_string_lossy().into_owned())
}
