//! A server that works on each request for as long as the request asks, for measuring policies.
//!
//! The protocol is the [psp header](psp_protocols::psp_header) over UDP or TCP. A request names its type
//! and its run time. The handler spins or sleeps for that time and echoes the header. A request may also ask for a
//! wait, for which it leaves its worker to others when half of its run time is over.
//!
//! ```text
//!   psp-loadgen ── header: type, run time ──► net worker, dispatcher ──► worker: spin or sleep
//!        ▲                                                                    │
//!        └──────────────────────────── header as a reply ◄────────────────────┘
//! ```

pub mod config;
pub mod handler;
pub mod startup;
