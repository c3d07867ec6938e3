//! What can go wrong with a server as a whole.

#[cfg(feature = "dpdk")]
mod dpdk;
mod server;
mod settings;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "dpdk")]
pub use dpdk::DpdkError;
pub use server::{BuildError, RunError, TypesError, WorkerFault};
pub use settings::{Place, SettingsError};
#[cfg(feature = "tls")]
pub use tls::TlsError;
