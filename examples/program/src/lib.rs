//! The common parts of the example servers as programs: flags, configuration files, logs.
//!
//! ```text
//!   main: defaults ─► TOML file ─► flags ─► configuration ─► log ─► Program ─► server ─► serve ─► end
//!                     config_file  flags    configuration    log_level           │
//!                                  sockets, transport                  SIGHUP ───┴► reload
//! ```
//!
//! A program defines its [`ProgramConfig`], whose fields are the keys of the file and the flags. Its `main` builds a
//! server from the configuration, and the [`Program`] serves it. The [`CommandLine`] adds the flags that all programs
//! have.
//!
//! [`spin`](fn@spin) is work of a chosen length, for servers that measure scheduling.

mod as_written;
mod background;
mod config_file;
mod configuration;
mod cpu_time;
pub mod descriptors;
mod failure;
mod flags;
mod forms;
mod log_level;
mod log_queue;
mod memory;
mod program;
mod reload;
mod scheduling;
mod service_manager;
mod sockets;
mod spin;
#[cfg(test)]
mod testing;
mod tls;
mod transport;

pub use background::{PidFile, detach};
pub use config_file::replace;
pub use configuration::{CommandLine, CommonSettings, ProgramConfig, replace_by_flags};
pub use cpu_time::CpuTime;
pub use failure::explain;
pub use flags::{ArbiterFlags, FileFlags};
pub use forms::{number_or_text, one_or_many};
pub use log_level::{Log, LogLevel};
pub use memory::{GroupMemory, fit_buffers};
pub use program::{Program, end, main, main_of, run};
pub use sockets::{SocketConfig, UnixMode};
pub use spin::spin;
pub use tls::{AuthClients, OldestVersion, Tls, TlsFiles};
pub use transport::{Transport, TransportConfig};
