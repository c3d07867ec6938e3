//! Scripts in Lua 5.1: what EVAL, EVALSHA and SCRIPT, FCALL and FUNCTION work with.
//!
//! ```text
//!   classifier ─► Profile: how long the script takes ─► type of the request
//!
//!   EVAL ──► Library: scripts by digest ──┬─► Pool: an idle interpreter ─► Run, on a fork of the keyspace
//!   FCALL ─► Functions: libraries by name ┘    │
//!                                              └ sandbox.lua, native functions, compiled scripts, a hook
//! ```
//!
//! A script runs as a transaction does: without locks, on a fork that one commit stores, and again if another request
//! changed one of its keys. So it is atomic over any keys, and it may be stopped at any time before the commit.

mod api;
mod bit;
mod budget;
mod cjson;
mod cmsgpack;
pub mod control;
mod convert;
pub mod digest;
pub mod functions;
#[cfg(test)]
mod grammar;
mod interpreter;
#[cfg(test)]
mod known_faults;
pub mod library;
mod loading;
mod native;
mod number;
pub mod pool;
pub mod profile;
pub(crate) mod run;
pub mod shebang;
mod structs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use functions::Functions;
use library::Library;
use pool::Pool;
use profile::Profile;

/// The scripts of a server.
#[derive(Debug, Default)]
pub struct Scripts {
    /// Scripts by digest.
    pub library: Library,
    /// Libraries of functions.
    pub functions: Functions,
    /// How long scripts and functions take.
    pub profile: Arc<Profile>,
    /// Lua states.
    pub pool: Pool,
}
