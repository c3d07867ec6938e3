//! The admin port: health, figures and a live page of a server, over HTTP.
//!
//! ```text
//!   browser, Prometheus, kubelet ──► psp-admin (a thread of its own) ──► ServerHandle ──► counters, policy
//! ```
//!
//! [`Config::admin`](crate::Config::admin) names its address. The thread has its port from the server's start to the
//! end of the drain. It shares nothing with the path of requests: it reads counters, and posts a new policy.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | a page that shows workers, queues and latencies as they change |
//! | `GET /livez` | 200, and 503 while a net thread stands still: its loop has not turned for a second |
//! | `GET /readyz` | 200 when all workers are ready, 503 before, and from the signal that stops the server on |
//! | `GET /metrics` | the figures in Prometheus' text format |
//! | `GET /status` | the [snapshot](crate::telemetry::Snapshot) and the policy as JSON |
//! | `GET /policy` | the policy with its settings |
//! | `GET /trace?ms=200` | what happens to requests in that time, as a [file](psp_trace) for Perfetto |
//! | `GET /slow` | the last [slow requests](crate::ServerHandle::slow_requests) as JSON |
//! | `PUT /policy` | changes the policy to the body: `darc`, `mq quantum-us=100`, a [program's own](crate::ServerBuilder::policies) |
//!
//! A connection has one request. Those who are slow with it make room for others, so that probes are answered:
//! `connections.rs`.
//!
//! A port without a host is one of the loopback interface. There, a request has to name the host by an address or as
//! `localhost`, so that a page of another site cannot reach the port by a name of its own. Beyond it, all but health
//! and figures needs the token of [`Config::admin_token_file`](crate::Config::admin_token_file): `access.rs`. With
//! [`Config::admin_tls_cert_file`](crate::Config::admin_tls_cert_file) the port speaks TLS: `certificates.rs`.

mod access;
mod answer;
#[cfg(feature = "admin-tls")]
mod certificates;
#[cfg(not(feature = "admin-tls"))]
#[path = "no_certificates.rs"]
mod certificates;
mod connections;
mod listener;
mod routes;
mod service;
mod trace;

pub(crate) use listener::AdminListener;
pub(crate) use service::Admin;
