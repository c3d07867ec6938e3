//! A Redis-compatible server on psp-server.
//!
//! ```text
//!   frame ─► RedisHandler ─► dispatch ─► table ─► commands::strings::get(&mut Context, args, out)
//!                               │                              │
//!                               └── arity, authentication,     └── psp_store::Keyspace
//!                                   counters per worker
//! ```
//!
//! [`command`] defines what a command is. [`commands`] holds the commands, one file per family.

pub mod acl;
pub mod admission;
pub mod blocking;
mod call;
mod call_keys;
pub mod client;
pub mod command;
pub mod commands;
mod conf_line;
pub mod config;
pub mod dispatch;
pub mod effects;
pub mod error;
pub mod eviction;
pub mod expire_time;
mod foresight;
pub mod geo;
pub mod glob;
mod growth;
pub mod handler;
pub mod hyperloglog;
pub mod keyspace_events;
pub mod long_double;
pub mod memory;
pub mod monitors;
pub mod number_text;
pub mod parse;
pub mod pause;
pub mod persistence;
pub mod pubsub;
mod rdb;
pub mod record;
pub mod redis_conf;
mod redis_version;
mod replace_file;
mod replies;
pub mod scripts;
pub mod settings;
pub mod size_class;
pub mod startup;
pub mod state;
pub mod stats;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
pub mod tracking;
pub mod transaction;
mod transcript;
mod turns;
pub mod typed;
