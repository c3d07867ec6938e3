//! The net worker: one thread that reads, frames, dispatches, and, in the topology `inline`, runs
//! the requests of worker 0 itself.
//!
//! ```text
//!   accepting ──► connections ─┐                          ┌─► worker 0, inline
//!   datagram sockets ──────────┼─► dispatcher ─► workers ─┼─► ring ─► worker 1
//!   polled port ───────────────┘                          └─► …
//!                          requests: lends and takes back
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `topology/` | the turn of the loop in each topology |
//! | `net_worker.rs` | what these have in common: when to sleep, draining, pauses |
//! | `driven.rs` | the ports that a net worker drives |
//! | `lease.rs` | who drives a port, of several workers |
//! | `long_turn.rs` | what a worker does around a long request |
//! | `pauses.rs` | requests that had the thread for longer than they may |
//! | `time_sharing.rs` | requests that are stuck on other threads |
//! | `tokens.rs` | what an event of the event queue is about |
//! | `accepting.rs` | accepts connections |
//! | `newcomers.rs` | passes connections of a shared socket to the ports in turn |
//! | `connections/` | the table of connections, and what a connection does next |
//! | `datagram_sockets.rs` | receives datagrams from sockets |
//! | `polled_port.rs` | receives datagrams from a polled port |
//! | `sources.rs` | from which sources datagrams are taken, and how many bytes each may get |
//! | `intake.rs` | classifies datagrams and hands them to the dispatcher |
//! | `port.rs` | an event queue with all of these: what a net worker drives |
//! | `requests.rs` | lends requests to workers and takes them back |
//! | `returns.rs` | brings connections and datagrams back to their ports from whichever worker ran their requests |
//! | `commons.rs` | what all ports of a server have in common |
//! | `lent.rs` | the tasks that workers hold |
//! | `workers.rs` | workers with threads of their own: messages out, completions in |
//! | `granted_cores.rs` | asks an arbiter for cores |
//! | `grants.rs` | which threads have cores of their own, and which workers are present therefore |

mod accepting;
pub(crate) mod commons;
mod connections;
mod datagram_sockets;
mod driven;
mod granted_cores;
mod grants;
pub(crate) mod intake;
mod lease;
mod lent;
mod long_turn;
pub(crate) mod net_worker;
mod newcomers;
mod origin;
mod pauses;
mod polled_port;
pub(crate) mod port;
mod requests;
mod returns;
mod sources;
mod time_sharing;
mod tokens;
pub(crate) mod topology;
pub(crate) mod workers;

pub(crate) use driven::PortLeases;
pub(crate) use polled_port::Polled;
pub(crate) use tokens::WAKER;
#[cfg(all(test, not(loom)))]
pub(crate) use tokens::{ALARM, Tokens};
