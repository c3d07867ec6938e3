//! Sans-IO codecs: bytes in, frames out.
//!
//! This crate knows nothing of sockets, threads or scheduling. A transport feeds the bytes that a
//! peer sent to a [`Framing`], which says where the next request ends; a handler writes its reply
//! through a [`Sink`].
//!
//! ```text
//!   bytes of a peer ──► Framing::next_frame ──► frame (a slice of the input) ──► handler
//!                            │                                                     │
//!                            └── FrameError: the peer broke the protocol           ▼
//!                                                                     Sink (reply bytes)
//! ```
//!
//! A client's side is [`skip`]: where each reply ends, and how its request fared. [`packet`] has the
//! headers around datagrams, for transports without a kernel.

pub mod envelope;
pub mod framing;
pub mod kv;
pub mod memcached;
pub mod packet;
pub mod psp_header;
pub mod resp;
pub mod rpc;
pub mod sink;
pub mod skip;

pub use envelope::Envelope;
pub use framing::{FrameError, Framing, Rejection, Step};
pub use sink::Sink;
