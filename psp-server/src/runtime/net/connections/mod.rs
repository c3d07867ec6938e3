//! The net worker's table of connections, and what a connection does next.
//!
//! ```text
//!            ┌──────── output waits: send it ◄─────────────┐
//!            ▼                                             │
//!   Home ── frames in the input ──► Queued ──► Lent ──► Home again
//!     │ │      └── queue is full ──► Backpressured ──┘ a place is free
//!     │ └── none: read ──► (blocked: wait for the socket)
//!     └── closing, end of input ──► Lingering ──► Free
//! ```
//!
//! One run of requests per connection is in flight at a time, and a connection with much unsent output starts no new
//! run while its peer may read (`unread.rs`): replies keep their order, and a slow reader holds back only itself.
//!
//! | file | job |
//! | --- | --- |
//! | `table.rs` | the table: accepts, lends, takes back, closes |
//! | `slot.rs` | one connection as the table knows it: its phase |
//! | `readiness.rs` | what is known of a connection's socket |
//! | `ready_queue.rs` | connections that have something to do |
//! | `advance.rs` | the next step of a connection: send, frame, read |
//! | `unread.rs` | which connections run on whose peers do not read, and which are closed |
//! | `watched.rs` | those whose peers may read later, in order |
//! | `closed_log.rs` | log of those that are closed for what is held for them |
//! | `handshake.rs` | TLS handshakes: collects bytes, and has a worker take each step |
//! | `parse.rs` | frames and classifies input into a run |
//! | `backpressured.rs` | connections whose runs wait for places in typed queues |
//! | `holding.rs` | gives places to such runs, or refuses them |
//! | `body_line.rs` | connections whose long requests wait for room in the budget |
//! | `bodies.rs` | reserves room for such requests |
//! | `dropping.rs` | refuses runs, and drops those that no client waits for |
//! | `evicting.rs` | closes connections that hold much and wait for nothing |
//! | `owing.rs` | sends replies that were deferred |
//! | `pushing.rs` | sends messages that were pushed |
//! | `peer_end.rs` | notices that a peer has gone |
//! | `lingering.rs` | closing without losing the last reply |
//! | `memory.rs` | buffers, and the bytes held for all peers |
//! | `per_address.rs` | how many connections each address has |

mod advance;
mod backpressured;
mod bodies;
mod body_line;
mod closed_log;
mod detached;
mod dropping;
mod evicting;
mod handshake;
mod holding;
mod lingering;
mod memory;
mod owing;
mod parse;
pub(super) mod peer_end;
pub(super) mod per_address;
mod pushing;
mod readiness;
mod ready_queue;
mod slot;
mod table;
mod unread;
mod watched;

pub(super) use table::Connections;
