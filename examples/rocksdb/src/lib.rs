//! A key-value server over psp's RPC, on RocksDB or in memory. It is the storage workload of the papers:
//! GETs of microseconds beside SCANs of a millisecond.
//!
//! ```text
//!   psp-loadgen ── rpc: GET, SCAN, PUT, DELETE ──► net worker, classifier by method
//!        ▲                                              │ typed queues, policy
//!        │                                              ▼
//!        └────────────── response ◄── RpcHandler ◄─ KeyValue ─► Engine: Memory or RocksDb
//!                                                      ├ checkpoint every 32 entries of a SCAN
//!                                                      └ without the worker while a write waits for the medium
//! ```
//!
//! The messages are defined in [`psp_protocols::kv`]. [`limits`] bounds them.

pub mod closing;
pub mod config;
pub mod engine;
pub mod limits;
pub mod preload;
pub mod service;
pub mod startup;
