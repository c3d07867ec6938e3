//! The protocols of memcached: text, meta and binary.
//!
//! ```text
//!   server:  stream ─► MemcachedFraming ─► frame ─┬► text::Request   ─► handler ─► text, meta ─► Sink
//!                                                 └► binary::Request ─► handler ─► binary ────► Sink
//!   client:  binary::encode_request ─► stream ... stream ─► MemcachedSkipper ─► end and outcome of one reply
//! ```
//!
//! In datagrams, a header precedes each message ([`udp`]).
//!
//! The text and meta protocols are those of memcached's `doc/protocol.txt`, the binary one that of
//! its `doc/protocol-binary.xml`. Errors and limits are those of memcached 1.6. A value that is too
//! large is never buffered: see [`Framing::discard_after`](crate::Framing::discard_after).

pub mod binary;
mod detect;
mod item;
pub mod meta;
mod replies;
pub mod text;
pub mod udp;

pub use detect::{MemcachedFraming, is_binary};
pub use item::{KEY_LEN_MAX, data_len_max};
pub use replies::{MemcachedReplies, MemcachedSkipper};
