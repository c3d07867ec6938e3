//! What can go wrong with a server as a whole.
//!
//! `main` prints the `Debug` of an error that it returns. So that of these errors is one line that a person reads.

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

use std::fmt::{self, Debug, Display, Formatter};

/// Writes what an error displays as one line: a panic's message, and an error of the user's, may have more.
fn one_line(error: &impl Display, formatter: &mut Formatter<'_>) -> fmt::Result {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    formatter.write_str(&lines.collect::<Vec<_>>().join(" "))
}

macro_rules! debug_is_one_line {
    ($($error:ty),+) => {
        $(impl Debug for $error {
            fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                one_line(self, formatter)
            }
        })+
    };
}

debug_is_one_line!(BuildError, TypesError, RunError, WorkerFault, SettingsError);
#[cfg(feature = "dpdk")]
debug_is_one_line!(DpdkError);
#[cfg(feature = "tls")]
debug_is_one_line!(TlsError);
