//! A server that works on each request for as long as the request asks: the yardstick for policies.
//!
//! It speaks the [psp header](psp_protocols::psp_header) over UDP, or over TCP. A request names its
//! type and its run time; the handler spins or sleeps for that long and echoes the header.
//!
//! ```text
//!   psp-loadgen ── header: type, run time ──► net worker, dispatcher ──► worker: spin or sleep
//!        ▲                                                                    │
//!        └──────────────────────────── header as a reply ◄────────────────────┘
//! ```

pub mod admin;
pub mod config;
pub mod handler;
pub mod startup;
