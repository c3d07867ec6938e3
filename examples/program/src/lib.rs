//! What the example servers have in common as programs.
//!
//! ```text
//!   defaults ─► TOML file ─► flags ─► configuration ─► log, limit of open files ─► server ─► run
//!               config_file  scheduling                log_level  descriptors      life
//! ```

pub mod config_file;
pub mod descriptors;
mod life;
mod log_level;
mod scheduling;
mod transport;

pub use life::run;
pub use log_level::{Log, LogLevel};
pub use scheduling::SchedulingFlags;
pub use transport::{Transport, TransportConfig, TransportFlags};
