//! What the example servers have in common as programs.
//!
//! ```text
//!   defaults ─► TOML file ─► flags ─► configuration ─► log, limit of open files ─► server ─► run
//!               config_file  scheduling                log_level  descriptors      life
//! ```
//!
//! [`rpc`] has what servers of psp's RPC have in common besides; [`spin`](fn@spin) is work for servers that
//! measure scheduling.

pub mod config_file;
pub mod descriptors;
mod life;
mod log_level;
mod reload;
pub mod rpc;
mod scheduling;
mod spin;
mod transport;

pub use life::run;
pub use log_level::{Log, LogLevel};
pub use reload::reload_on_hangup;
pub use scheduling::SchedulingFlags;
pub use spin::spin;
pub use transport::{Transport, TransportConfig, TransportFlags};
