//! TLS 1.2 and 1.3 on connections, by [`rustls`]. Needs the feature `tls`.
//!
//! ```no_run
//! # use psp_server::protocols::psp_header::PspFraming;
//! # use psp_server::{Reply, Request, Server};
//! use psp_server::tls::{ClientCertificates, TlsConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tls = TlsConfig::from_pem_files("chain.pem", "key.pem", &ClientCertificates::NotAsked)?;
//! let server = Server::builder()
//!     .tls("0.0.0.0:6380", &tls)
//! #   .framing(PspFraming::default())
//! #   .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! A handshake is a request of a type of its own, [`HANDSHAKE`]: its keys and signatures run on a worker, and the
//! policy keeps them off workers that are reserved for shorter requests. The server registers the type behind the
//! user's types, and counts its requests as it counts theirs. One handshake is two such requests, or more.
//!
//! [`Config::handshake_timeout_s`](crate::Config::handshake_timeout_s) bounds the time that a peer has, and
//! [`Config::queue_capacity`](crate::Config::queue_capacity) the handshakes that wait. A peer that exceeds a bound or
//! breaks the protocol loses its connection;
//! [`NetSnapshot::handshakes_failed`](crate::telemetry::NetSnapshot::handshakes_failed) counts them.

pub use rustls;

pub use crate::error::TlsError;
pub use crate::request_types::HANDSHAKE;
pub use crate::transport::tls::{ClientCertificates, TlsConfig, TlsVersion};
