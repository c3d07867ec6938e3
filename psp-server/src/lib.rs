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
//! ```no_run
//! use psp_server::protocols::psp_header::{HEADER_LEN, PspFraming};
//! use psp_server::protocols::Sink;
//! use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! Server::builder()
//!     .udp("127.0.0.1:7000")
//!     .framing(PspFraming::default())
//!     .types([TypeSpec::new("short"), TypeSpec::new("long")])
//!     .classifier(|request: &[u8]| RequestType::new(u32::from(request[3])))
//!     .policy(Policy::c_fcfs())
//!     .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| {
//!         reply.put(&request.payload[..HEADER_LEN]);
//!     })
//!     .build()?
//!     .run()?;
//! # Ok(())
//! # }
//! ```

mod admission;
pub mod classifier;
pub mod config;
pub mod error;
mod fiber;
pub mod handler;
pub mod policy;
pub mod preempt;
pub mod reload;
pub mod reply;
pub mod request_type;
mod runtime;
pub mod server;
pub mod shutdown;
mod sleep;
pub mod telemetry;
#[cfg(feature = "tower")]
pub mod tower;
mod transport;

pub use classifier::Classifier;
pub use config::{Config, Topology};
pub use error::{BuildError, RunError};
pub use handler::{Handler, Request};
pub use policy::{Policy, WorkerId};
pub use preempt::{PreemptPolicy, SignalPreemptible, checkpoint, no_preempt};
pub use reply::Reply;
pub use request_type::{RequestType, TypeSpec, TypeTable};
pub use server::{DrainReport, Server, ServerBuilder, ServerHandle};
pub use shutdown::Shutdown;
pub use sleep::sleep;

pub use psp_protocols as protocols;
