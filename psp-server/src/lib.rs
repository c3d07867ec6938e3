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
//! `docs/your-protocol.md` goes from an empty crate to this server, step by step, with a client, statistics
//! and other policies. [`protocols`] has RESP, memcached, protobuf RPC and a header for UDP.

mod admission;
#[cfg(feature = "dpdk")]
#[doc(hidden)]
pub mod bench_support;
mod builder;
pub mod classifier;
pub mod config;
pub mod error;
mod fiber;
pub mod handler;
mod late_waker;
mod limits;
mod listen;
pub mod peer;
pub mod preempt;
mod presence;
mod refusal;
pub mod reload;
pub mod reply;
mod request_types;
mod runtime;
pub mod server;
mod shared;
pub mod shutdown;
mod signal_preemptible;
mod sleep;
mod spawned_server;
pub mod telemetry;
#[cfg(feature = "tower")]
pub mod tower;
mod transport;

pub use builder::{HandlerPlace, Missing, MissingPreemptible, OneType, ServerBuilder};
pub use classifier::Classifier;
pub use config::{Config, Topology};
pub use error::{BuildError, RunError, TypesError, WorkerFault};
pub use handler::{Handler, Outcome, Request};
pub use peer::{Credentials, Peer};
pub use preempt::{PreemptPolicy, SignalPreemptible, checkpoint, is_abandoned, no_preempt};
pub use refusal::Refusal;
pub use reply::Reply;
pub use runtime::shorten_slice;
pub use server::{DrainReport, Server};
pub use shared::ServerHandle;
pub use shutdown::Shutdown;
pub use sleep::sleep;
pub use spawned_server::SpawnedServer;

#[cfg(feature = "dpdk")]
pub use transport::dpdk;

pub use psp_policy as policy;
pub use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId, request_type};
pub use psp_protocols as protocols;
