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
mod reload;
mod scheduling;

pub use life::run;
pub use log_level::{Log, LogLevel};
pub use reload::reload_on_hangup;
pub use scheduling::SchedulingFlags;
