//! Protocols over UDP: one socket or port. A reply is matched by its id.
//!
//! ```text
//!   arrival ──► Exchange::write ──► Link ──► server
//!                  │                            │
//!                  ▼                            ▼
//!                Ring ◄── Exchange::take ◄── datagrams of the reply
//!                  └─ too old: a timeout
//! ```
//!
//! An [`Exchange`](exchange::Exchange) knows the requests and replies of a protocol. A request
//! whose reply is not complete in time counts as a timeout, whether the network or the server lost
//! it.

pub(super) mod exchange;
pub(super) mod lane;
pub(super) mod memcached;
pub(super) mod psp;
mod ring;
