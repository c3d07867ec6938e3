//! Sans-IO codecs: bytes in, frames out.
//!
//! This crate has no sockets, threads or scheduling. A transport passes the bytes of a peer to a
//! [`Framing`], which finds the end of the next request. A handler writes its reply to a [`Sink`].
//!
//! ```text
//!   bytes of a peer ──► Framing::next_frame ──► frame (a slice of the input) ──► handler
//!                            │                                                     │
//!                            └── FrameError: the peer broke the protocol           ▼
//!                                                                     Sink (reply bytes)
//! ```
//!
//! [`framings`] has those that many protocols share: lines, lengths before messages, and others.
//!
//! [`skip`] is for clients: it finds the end of each reply and the outcome of its request. [`packet`]
//! has the headers of network packets, for transports that bypass the kernel.

#[macro_use]
mod setters;

pub mod envelope;
pub mod framing;
pub mod framings;
pub mod http;
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
#[cfg(feature = "codec")]
pub use framings::Decoded;
pub use framings::{FixedSize, LengthDelimited, Lines};
pub use sink::Sink;
