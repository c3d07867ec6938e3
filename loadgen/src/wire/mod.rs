//! What a mix's commands look like in each protocol.
//!
//! ```text
//!   "MGET 100" ─► dialect ─► CommandTemplate ─► Arguments ─► RequestWriter ─► bytes
//!                 bare words                    drawn anew        └─► what to expect
//!                                                                          │
//!                                   bytes ─► Replies ─► outcome, id ───────┴─► hits, misses
//! ```

mod dialect;
mod memcached;
mod replies;
mod rpc;
mod writer;

pub(crate) use dialect::complete;
pub(crate) use replies::Replies;
pub(crate) use writer::{Expected, Lookup, RequestWriter};
