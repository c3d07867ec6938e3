//! TLS between the socket of a connection and its buffers.
//!
//! ```text
//!             net thread                                               worker
//!   socket ──► handshake bytes ── a whole record ──► HANDSHAKE queue ──► step: keys, signatures
//!     ▲   └──► records: decrypt ──► InputBuffer ──► typed queue ───────► Handler
//!     └─────── records ◄── encrypt ◄── OutputQueue ◄──────────────────────┘
//! ```
//!
//! Key exchange and signatures take as long as a hundred short requests or more. So the net thread runs no handshake:
//! it collects bytes until a record is whole, and then the connection waits in the typed queue of handshakes.
//! The net thread decrypts the records of requests as it reads them, and the thread that sends a reply encrypts
//! it.
//!
//! | file | job |
//! | --- | --- |
//! | `config.rs` | certificates, keys, and which clients are let in |
//! | `session.rs` | the session between a socket and the buffers of its connection |
//! | `record.rs` | whether bytes have a whole record |

mod config;
mod record;
mod session;

pub use config::{ClientCertificates, TlsConfig, TlsVersion};
pub(crate) use session::TlsSession;
