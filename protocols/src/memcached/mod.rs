//! The protocols of memcached.
//!
//! ```text
//!   client:  stream ─► MemcachedSkipper ─► end and outcome of one reply
//! ```
//!
//! The text and meta protocols are those of memcached's `doc/protocol.txt`.

mod replies;

pub use replies::{MemcachedReplies, MemcachedSkipper};
