//! What the example servers have in common as programs.
//!
//! ```text
//!   main: defaults ─► TOML file ─► flags ─► configuration ─► log ─► Program ─► server ─► serve ─► end
//!                     config_file  flags    configuration    log_level           │
//!                                  transport                           SIGHUP ───┴► reload
//! ```
//!
//! A program has its own [`ProgramConfig`] and [`ProgramFlags`], into which it flattens those that most have,
//! and a `main` that makes a server of the configuration and has the [`Program`] serve it. The [`CommandLine`] adds
//! flags about the file.
//!
//! [`rpc`] has what servers of psp's RPC have in common besides; [`spin`](fn@spin) is work for servers that
//! measure scheduling.

mod config_file;
mod configuration;
pub mod descriptors;
mod flags;
mod log_level;
mod program;
mod reload;
pub mod rpc;
mod scheduling;
mod spin;
#[cfg(test)]
mod testing;
mod transport;

pub use config_file::replace;
pub use configuration::{CommandLine, CommonSettings, ProgramConfig, ProgramFlags};
pub use flags::{ListenFlags, ServerFlags};
pub use log_level::{Log, LogLevel};
pub use program::{Program, main, run};
pub use spin::spin;
pub use transport::{Transport, TransportConfig, TransportFlags};
