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
//! A protocol is a [`Framing`](protocols::Framing), which says where a request ends: one of those
//! [that there are](protocols::framings), such as lines, or your own. The two types and the policy are one line each:
//!
//! ```
//! use std::time::Duration;
//!
//! use psp_server::protocols::{Lines, Sink};
//! use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder()
//!     .tcp("127.0.0.1:0")
//!     .framing(Lines::default())
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
//! /// Long work yields to other requests at its checkpoints.
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
//! | let long requests yield | [`checkpoint`], [`Pace`], [`preempt`], [`feedback::long`] |
//! | learn for how long requests compute | [`CpuTimer`] |
//! | wait for other servers, locks and timers | [`wait()`], [`task`], [`sync`] |
//! | read settings from a file | [`Settings`], [`Config`] |
//! | watch and steer a running server | [`ServerHandle`], [`telemetry`], [`reload`], [`Config::admin`] |
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `admin` | health, figures, traces and a live page over HTTP: the module `admin` |
//! | `admin-tls` | TLS on the admin port; includes `admin` and `tls` |
//! | `tls` | TLS on connections, by rustls: the module `tls` |
//! | `macros` | checkpoints in the loops of a function: the attribute `preemptible` |
//! | `tower` | a service of tower as a handler: the module `tower` |
//! | `codec` | decoders of tokio-util as framings: [`protocols::framings`] |
//! | `tokio` | futures of tokio in handlers: [`ServerBuilder`]'s method `tokio` |
//! | `dpdk` | UDP through a port that the net thread polls, or each worker: the module `dpdk`; needs libdpdk 22.11 |
//!
//! `benches`, `instructions` and `loom` are for the benchmarks and tests of this crate.
//!
//! # Metrics
//!
//! [`telemetry::Publisher`] hands a [snapshot](ServerHandle::snapshot) to the recorder of the crate `metrics`, from
//! which any exporter takes it. The [admin port](Config::admin) serves the same figures to Prometheus by itself. Names
//! with `_total` are counters, those of times without it are histograms, the others are gauges. All but those of the
//! crate `metrics` have the label `server`, the name of the program. A server has the figures of its own parts alone.
//!
//! | metric | label | servers with | what it counts |
//! | --- | --- | --- | --- |
//! | `psp_connections_open` |  |  | Connections that are open. |
//! | `psp_connections_accepted_total` |  |  | Connections that were accepted. |
//! | `psp_connections_refused_total` |  |  | Connections over connections-max, or refused by the handler. |
//! | `psp_connections_refused_by_handler_total` |  |  | Connections that the handler refused. |
//! | `psp_connections_over_address_limit_total` |  |  | Connections over connections-per-address-max. |
//! | `psp_connections_timed_out_total` |  |  | Connections closed by a timeout. |
//! | `psp_connections_over_budget_total` |  |  | Connections closed because of buffered-bytes-max. |
//! | `psp_connections_over_output_limit_total` |  |  | Connections closed because their peers sent requests and read no replies. |
//! | `psp_connections_abandoned_total` |  |  | Connections that peers left while a request waited or ran. |
//! | `psp_handshakes_total` |  | TLS | TLS handshakes that succeeded. |
//! | `psp_handshakes_failed_total` |  | TLS | TLS handshakes that failed. |
//! | `psp_buffered_bytes` |  |  | Bytes of memory held for all peers. |
//! | `psp_received_bytes_total` |  |  | Bytes received. |
//! | `psp_sent_bytes_total` |  |  | Bytes sent. |
//! | `psp_malformed_total` |  |  | Peers that broke the protocol: connections closed and datagrams dropped for it. |
//! | `psp_replies_deferred` |  |  | Replies that are deferred: their handlers have returned. |
//! | `psp_deferred_failed_total` |  |  | Deferred replies that failed, were dropped or could not be sent. |
//! | `psp_datagrams_received_total` |  | datagrams | Datagrams received. |
//! | `psp_datagrams_reflected_total` |  | datagrams | Datagrams dropped that only a forged source explains. |
//! | `psp_datagrams_over_budget_total` |  | datagrams | Datagrams over their source's datagram-bytes-per-source-per-s. |
//! | `psp_frames_received_total` |  | polled port | Frames that the polled port received. |
//! | `psp_arp_answered_total` |  | polled port | ARP requests that it answered. |
//! | `psp_echoes_answered_total` |  | polled port | Pings that it answered. |
//! | `psp_packet_overflows_total` |  | polled port | Datagrams that no buffer was left for. |
//! | `psp_packets_unsent_total` |  | polled port | Frames that it could not send. |
//! | `psp_frames_dropped_total` | `reason` | polled port | Frames that the polled port dropped, by reason. |
//! | `psp_reservation_updates_total` |  |  | Changes of the workers reserved. |
//! | `psp_studies_total` |  |  | Studies of the workload, by which the portfolio chooses a policy. |
//! | `psp_net_threads_stalled` |  |  | Net threads whose loop has not turned for a second. |
//! | `psp_net_stalls_total` |  |  | Times that a net thread stood still for a second. |
//! | `psp_net_stalled_seconds_total` |  |  | Time for which net threads stood still beyond that second. |
//! | `psp_log_lines_dropped_total` |  |  | Log lines of the whole process that were dropped because nobody read them in time. |
//! | `psp_workers_present` |  |  | Workers that are present. |
//! | `psp_workers_came_total` |  | range of workers | Workers that came. |
//! | `psp_workers_went_total` |  | range of workers | Workers that went. |
//! | `psp_arbiter_registered` |  | arbiter | 1 while an arbiter knows the server. |
//! | `psp_arbiter_cores` |  | arbiter | Cores that the arbiter has granted. |
//! | `psp_arbiter_cores_wanted` |  | arbiter | Cores that the server wants. |
//! | `psp_arbiter_grants_total` |  | arbiter | Cores granted. |
//! | `psp_arbiter_recalls_total` |  | arbiter | Times that the arbiter asked for cores back. |
//! | `psp_arbiter_takings_total` |  | arbiter | Cores taken because they were not released in time. |
//! | `psp_arrivals_total` | `type` |  | Requests that arrived. |
//! | `psp_completions_total` | `type` |  | Requests that completed. |
//! | `psp_held_total` | `type` |  | Requests that waited for a place in the typed queue. |
//! | `psp_rejections_total` | `type` |  | Requests refused because the typed queue was full, or by admission. |
//! | `psp_abandoned_total` | `type` |  | Requests not run because the peer had left. |
//! | `psp_expired_total` | `type` |  | Requests not run because they had waited too long. |
//! | `psp_steals_total` | `type` |  | Requests that ran on workers of longer types. |
//! | `psp_relieved_total` | `type` |  | Requests that ran on workers of other types because their own were stuck. |
//! | `psp_turns_total` | `type` |  | Turns on workers. |
//! | `psp_preemptions_asked_total` | `type` |  | Requests asked to give way. |
//! | `psp_preemptions_honoured_total` | `type` |  | Requests that gave way. |
//! | `psp_preemptions_late_total` | `type` |  | Requests that gave way late. |
//! | `psp_stuck_total` | `type` |  | Requests that ran for longer than stuck-after-ms and may never end. |
//! | `psp_paused_total` | `type` |  | Times a request gave the net thread back after net-budget-us. |
//! | `psp_handler_waits_total` | `type` |  | Waits in handlers that began. |
//! | `psp_handler_wait_seconds_total` | `type` |  | Time of those that ended. |
//! | `psp_blocked` | `type` |  | Requests that wait in their handlers. |
//! | `psp_queue_length` | `type` |  | Requests that wait for a worker; a run of pipelined requests counts as one. |
//! | `psp_workers_reserved` | `type` |  | Workers reserved for the group of the type. |
//! | `psp_slo_infeasible` | `type` | admission | 1 while the SLO is shorter than two mean service times. |
//! | `psp_expectation_error_seconds` | `type` | admission | How far the waits that admission expects are from real ones, on average. |
//! | `psp_refused_total` | `type`, `reason` | admission | Requests that admission refused, by reason; a run of pipelined requests counts as one. |
//! | `psp_wait_seconds` | `type` |  | From the arrival of a request to the beginning of its handler. |
//! | `psp_service_seconds` | `type` |  | Service times: time with a worker. |
//! | `psp_sojourn_seconds` | `type` |  | From the arrival of a request to the end of its handler. |
//! | `psp_worker_completions_total` | `worker` |  | Requests that the worker completed. |
//! | `psp_worker_service_seconds_total` | `worker` |  | Time that it spent in handlers. |
//! | `psp_worker_panics_total` | `worker` |  | Handlers that panicked. |
//! | `psp_worker_failures_total` | `worker` |  | Requests that the handler failed. |
//! | `psp_worker_replies_too_large_total` | `worker` |  | Replies over the limit. |
//! | `psp_worker_replies_over_budget_total` | `worker` |  | Replies that buffered-bytes-max had no room for. |
//! | `psp_worker_replies_unsent_total` | `worker` | datagrams | Datagrams that could not be sent. |
//! | `psp_worker_preemptions_honoured_total` | `worker` |  | Requests that gave way. |
//! | `psp_worker_preemptions_missed_total` | `worker` |  | Requests that were asked to give way and ran to their end. |
//! | `psp_worker_contexts_exhausted_total` | `worker` |  | How many of these found no idle context. |
//! | `psp_worker_stolen_total` | `worker` |  | Requests that it took from another worker's queue. |
//! | `psp_worker_handed_over_total` | `worker` |  | Requests that another worker received and handed over to it. |
//! | `psp_worker_datagrams_received_total` | `worker` | datagrams | Datagrams that came to its own port, in the topology distributed. |
//!
//! # Pages of the repository
//!
//! `docs/your-protocol.md` goes from an empty crate to this server, step by step, with a client, statistics
//! and other policies. `docs/configuration.md` lists the keys of a settings file, `docs/policies.md` the policies.
//! [`protocols`] has RESP, memcached, protobuf RPC and a header for UDP.

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(not(feature = "admin"))]
#[path = "no_admin.rs"]
mod admin;
mod admission;
#[cfg(feature = "dpdk")]
mod bench_support;
mod body;
mod builder;
pub mod classifier;
pub mod config;
mod critical;
pub mod error;
pub mod feedback;
mod fiber;
mod foreseen;
mod guarded_framing;
pub mod handler;
#[doc(hidden)]
pub mod internal;
mod late_waker;
mod limits;
mod listen;
mod mailbox;
mod own_policies;
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
#[cfg(all(test, not(loom)))]
mod simulated;
mod spawned_server;
pub mod sync;
pub mod task;
pub mod telemetry;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "admin")]
mod trace;
#[cfg(not(feature = "admin"))]
#[path = "no_trace.rs"]
mod trace;
mod transport;
mod wait;
mod watch;
mod watchdog;

pub use body::Body;
pub use builder::{HandlerPlace, Missing, MissingPreemptible, OneType, ServerBuilder};
pub use classifier::Classifier;
pub use config::{AdmissionMode, Config, Topology};
pub use critical::critical;
pub use error::{BuildError, RunError, SettingsError, TypesError, WorkerFault};
pub use foreseen::Foreseen;
pub use handler::{Handler, Outcome, Request};
pub use peer::{Credentials, Peer};
pub use preempt::{CpuTimer, Pace, PreemptPolicy, SignalPreemptible, checkpoint, is_abandoned, load_level, no_preempt};
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

/// Puts checkpoints into the loops of a function: each passes a turn of a common [`Pace`] whenever it begins anew.
///
/// ```
/// #[psp_server::preemptible]
/// fn primes_below(limit: u64) -> usize {
///     let mut count = 0;
///     for number in 2..limit {
///         let mut divisor = 2;
///         while divisor * divisor <= number && number % divisor != 0 {
///             divisor += 1;
///         }
///         count += usize::from(divisor * divisor > number);
///     }
///     count
/// }
/// # assert_eq!(primes_below(100), 25);
/// ```
///
/// What [`checkpoint`] says holds for each loop. Closures, `async` blocks, macros and nested functions stay as they
/// are, and so do iterators' methods, such as `for_each`. A loop that the compiler vectorises without it has a price:
/// write checkpoints by hand there, around blocks of elements.
#[cfg(feature = "macros")]
pub use psp_macros::preemptible;
pub use psp_policy as policy;
pub use psp_policy::elastic::Workers;
pub use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId, request_type};
pub use psp_protocols as protocols;
