//! Request/response servers whose short requests stay fast while long ones share the machine.
//!
//! A user writes two things: a [`Classifier`], which names the type of a request by its bytes, and
//! a [`Handler`], which runs it. The crate does the rest: sockets, framing, typed queues, workers,
//! and a [`Policy`] that decides which request runs where.
//!
//! ```text
//!             ┌─────────── net thread ───────────┐          ┌──── worker k ────┐
//!   clients ──► net worker ──► dispatcher ────────┼── ring ──► Handler::handle  │
//!      ▲      │  Framing       Classifier         │          │                  │
//!      │      │                typed queues       │◄─ ring ──┤ completion and   │
//!      │      │                Policy             │          │ service time     │
//!      │      └──────────────────────────────────┘          └───────┬──────────┘
//!      └───────────────────────── reply ◄────────────────────────────┘
//! ```
//!
//! Your own protocol is a [`Framing`](protocols::Framing), which says where a request ends. The two types and
//! the policy are one line each:
//!
//! ```
//! use std::time::Duration;
//!
//! use psp_server::protocols::{FrameError, Framing, Rejection, Sink, Step};
//! use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec};
//!
//! /// Requests are lines.
//! struct Lines;
//!
//! impl Framing for Lines {
//!     type Cursor = ();
//!     type Head = ();
//!
//!     fn next_frame(&self, _cursor: &mut (), input: &[u8]) -> Result<Step, FrameError> {
//!         match input.iter().position(|&byte| byte == b'\n') {
//!             Some(end) => Ok(Step::Frame { len: end + 1, head: () }),
//!             None if input.len() < 1024 => Ok(Step::NeedMore { len_min: input.len() + 1 }),
//!             None => Err(FrameError::new("the line is too long")),
//!         }
//!     }
//!
//!     fn encode_rejection(&self, why: &Rejection<'_>, _request: &[u8], out: &mut dyn Sink) {
//!         out.put(format!("ERROR {why}\n").as_bytes());
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder()
//!     .tcp("127.0.0.1:0")
//!     .framing(Lines)
//!     .types([
//!         TypeSpec::new("short").service_time(Duration::from_micros(1)),
//!         TypeSpec::new("long").service_time(Duration::from_millis(1)),
//!     ])
//!     .classifier(|line: &[u8]| RequestType::new(line.starts_with(b"COUNT ").into()))
//!     .policy(Policy::darc()) // or Policy::c_fcfs(), Policy::mq().quantum_us(500), ...
//!     .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| {
//!         let line = String::from_utf8_lossy(request.payload);
//!         let answer = match line.trim_end().split_once(' ') {
//!             Some(("UP", text)) => text.to_uppercase(),
//!             Some(("COUNT", number)) => count_to(number.parse().unwrap_or(0)).to_string(),
//!             _ => "ERROR UP TEXT or COUNT NUMBER".to_owned(),
//!         };
//!         reply.put(format!("{answer}\n").as_bytes());
//!     })
//!     .build()?;
//!
//! /// Long work gives way to other requests at its checkpoints.
//! fn count_to(number: u32) -> u32 {
//!     (0..number).inspect(|_| psp_server::checkpoint()).fold(0, |count, _| count + 1)
//! }
//! # let (address, handle) = (server.local_addrs()[0], server.handle());
//! # let exchange = move || {
//! #     use std::io::{Read, Write};
//! #     let mut stream = std::net::TcpStream::connect(address)?;
//! #     stream.write_all(b"UP hello\nCOUNT 7000\nDANCE\n")?;
//! #     stream.shutdown(std::net::Shutdown::Write)?;
//! #     let mut replies = String::new();
//! #     stream.read_to_string(&mut replies).map(|_| replies)
//! # };
//! # let client = std::thread::spawn(move || {
//! #     let replies = exchange();
//! #     handle.shut_down();
//! #     replies
//! # });
//!
//! server.run()?; // until SIGTERM or SIGINT, then answers the requests that it has received
//! # let replies = client.join().unwrap()?;
//! # assert_eq!(replies, "HELLO\n7000\nERROR UP TEXT or COUNT NUMBER\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | to | look at |
//! | --- | --- |
//! | build a server, and run or spawn it | [`Server::builder`], [`Server::run`], [`Server::spawn`] |
//! | name the types of requests | [`Classifier`], [`TypeSpec`] |
//! | answer requests | [`Handler`], [`Request`], [`Reply`] |
//! | choose how requests are scheduled | [`Policy`], [`policy`](mod@policy) |
//! | let long requests give way | [`checkpoint`], [`preempt`], [`feedback::long`] |
//! | wait for other servers, locks and timers | [`wait()`], [`task`], [`sync`] |
//! | read settings from a file | [`Settings`], [`Config`] |
//! | watch and steer a running server | [`ServerHandle`], [`telemetry`], [`reload`] |
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tls` | TLS on connections, by rustls: the module `tls` |
//! | `tower` | a service of tower as a handler: the module `tower` |
//! | `tokio` | futures of tokio in handlers: [`ServerBuilder`]'s method `tokio` |
//! | `dpdk` | UDP through a port that the net thread polls: the module `dpdk`; needs libdpdk 22.11 |
//!
//! `benches`, `instructions` and `loom` are for the benchmarks and tests of this crate.
//!
//! # Metrics
//!
//! [`telemetry::publish`] hands a [snapshot](ServerHandle::snapshot) to the recorder of the crate `metrics`. An exporter
//! such as Prometheus' reads it there. Names with `_total` are counters, the others are gauges.
//!
//! | metric | label | what it counts |
//! | --- | --- | --- |
//! | `psp_connections_open` | | connections that are open |
//! | `psp_buffered_bytes` | | bytes held for all peers |
//! | `psp_connections_accepted_total` | | connections that were accepted |
//! | `psp_connections_refused_total` | | connections over `connections-max` |
//! | `psp_connections_refused_by_handler_total` | | connections that the handler refused |
//! | `psp_connections_over_address_limit_total` | | connections over `connections-per-address-max` |
//! | `psp_connections_timed_out_total` | | connections closed by a timeout |
//! | `psp_connections_over_budget_total` | | connections closed because of `buffered-bytes-max` |
//! | `psp_connections_abandoned_total` | | connections that peers left while a request waited or ran |
//! | `psp_handshakes_total` | | TLS handshakes that succeeded |
//! | `psp_handshakes_failed_total` | | TLS handshakes that failed |
//! | `psp_bytes_received_total` | | bytes received |
//! | `psp_bytes_sent_total` | | bytes sent |
//! | `psp_datagrams_received_total` | | datagrams received |
//! | `psp_datagrams_reflected_total` | | datagrams dropped that only a forged source explains |
//! | `psp_datagrams_over_budget_total` | | datagrams over their source's `datagram-bytes-per-source-per-s` |
//! | `psp_malformed_total` | | requests that break the protocol |
//! | `psp_replies_deferred` | | replies that are deferred: their handlers have returned |
//! | `psp_deferred_failed_total` | | deferred replies that failed, were dropped or could not be sent |
//! | `psp_frames_received_total` | | frames that a polled port received |
//! | `psp_frames_dropped_total` | `reason` | frames that it dropped |
//! | `psp_arp_answered_total` | | ARP requests that it answered |
//! | `psp_echoes_answered_total` | | pings that it answered |
//! | `psp_packet_overflows_total` | | datagrams that no buffer was left for |
//! | `psp_packets_unsent_total` | | frames that it could not send |
//! | `psp_reservation_updates_total` | | changes of the workers reserved |
//! | `psp_workers_present` | | workers that are present |
//! | `psp_workers_came_total` | | workers that came |
//! | `psp_workers_went_total` | | workers that went |
//! | `psp_arbiter_registered` | | 1 while an arbiter knows the server |
//! | `psp_arbiter_cores` | | cores that it has granted |
//! | `psp_arbiter_cores_wanted` | | cores that the server wants |
//! | `psp_arbiter_grants_total` | | cores granted |
//! | `psp_arbiter_recalls_total` | | times that it asked for cores back |
//! | `psp_arbiter_takings_total` | | cores taken because they were not released in time |
//! | `psp_arrivals_total` | `type` | requests that arrived |
//! | `psp_completions_total` | `type` | requests that completed |
//! | `psp_held_total` | `type` | requests that waited for a place in the typed queue |
//! | `psp_rejections_total` | `type` | requests refused because the typed queue was full |
//! | `psp_abandoned_total` | `type` | requests not run because the peer had left |
//! | `psp_expired_total` | `type` | requests not run because they had waited too long |
//! | `psp_steals_total` | `type` | requests that ran on workers of longer types |
//! | `psp_relieved_total` | `type` | requests that ran on workers of other types because their own were stuck |
//! | `psp_service_ns_total` | `type` | service time |
//! | `psp_turns_total` | `type` | turns on workers |
//! | `psp_preemptions_asked_total` | `type` | requests asked to give way |
//! | `psp_preemptions_honoured_total` | `type` | requests that gave way |
//! | `psp_preemptions_late_total` | `type` | requests that gave way late |
//! | `psp_stuck_total` | `type` | requests that ran for longer than `stuck-after-ms` and may never end |
//! | `psp_waits_total` | `type` | waits in handlers that began |
//! | `psp_wait_ns_total` | `type` | time of those that ended |
//! | `psp_blocked` | `type` | requests that wait in their handlers |
//! | `psp_queue_length` | `type` | requests that wait for a worker |
//! | `psp_workers_reserved` | `type` | workers reserved for the group of the type |
//! | `psp_worker_completions_total` | `worker` | requests that completed |
//! | `psp_worker_service_ns_total` | `worker` | service time |
//! | `psp_worker_panics_total` | `worker` | handlers that panicked |
//! | `psp_worker_failures_total` | `worker` | requests that the handler failed |
//! | `psp_worker_replies_too_large_total` | `worker` | replies over the limit |
//! | `psp_worker_replies_over_budget_total` | `worker` | replies that `buffered-bytes-max` had no room for |
//! | `psp_worker_replies_unsent_total` | `worker` | datagrams that could not be sent |
//! | `psp_worker_preemptions_honoured_total` | `worker` | requests that gave way |
//! | `psp_worker_preemptions_missed_total` | `worker` | signals that came when a request could not give way |
//! | `psp_worker_contexts_exhausted_total` | `worker` | times that no context was left |
//! | `psp_worker_stolen_total` | `worker` | requests that it took from another worker's queue |
//! | `psp_worker_handed_over_total` | `worker` | requests that another worker received and handed over to it |
//!
//! # Pages of the repository
//!
//! `docs/your-protocol.md` goes from an empty crate to this server, step by step, with a client, statistics
//! and other policies. `docs/configuration.md` lists the keys of a settings file, `docs/policies.md` the policies.
//! [`protocols`] has RESP, memcached, protobuf RPC and a header for UDP.

mod admission;
#[cfg(feature = "dpdk")]
mod bench_support;
mod builder;
pub mod classifier;
pub mod config;
pub mod error;
pub mod feedback;
mod fiber;
pub mod handler;
#[doc(hidden)]
pub mod internal;
mod late_waker;
mod limits;
mod listen;
mod mailbox;
pub mod peer;
pub mod preempt;
mod presence;
mod refusal;
pub mod reload;
pub mod reply;
mod request_types;
mod runtime;
pub mod server;
pub mod settings;
mod shared;
pub mod shutdown;
mod signal_preemptible;
mod spawned_server;
pub mod sync;
pub mod task;
pub mod telemetry;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "tower")]
pub mod tower;
mod transport;
mod wait;
mod watch;

pub use builder::{HandlerPlace, Missing, MissingPreemptible, OneType, ServerBuilder};
pub use classifier::Classifier;
pub use config::{Config, Topology};
pub use error::{BuildError, RunError, SettingsError, TypesError, WorkerFault};
pub use handler::{Handler, Outcome, Request};
pub use peer::{Credentials, Peer};
pub use preempt::{PreemptPolicy, SignalPreemptible, checkpoint, is_abandoned, no_preempt};
pub use refusal::Refusal;
pub use reply::{Closer, DeferredReply, Push, PushBatch, PushError, Reply};
pub use server::{DrainReport, Server};
pub use settings::Settings;
pub use shared::ServerHandle;
pub use shutdown::Shutdown;
pub use spawned_server::SpawnedServer;
pub use wait::blocking::blocking;
pub use wait::{sleep, wait};
pub use watch::Watch;

#[cfg(feature = "dpdk")]
pub use transport::dpdk;

pub use psp_policy as policy;
pub use psp_policy::elastic::Workers;
pub use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId, request_type};
pub use psp_protocols as protocols;
