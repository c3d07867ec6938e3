//! What is written of each second while a run goes on.

use std::io;
use std::time::SystemTime;

use super::intervals::Interval;

/// A log of one or several runs.
pub trait IntervalLog {
    /// A run begins whose measurement begins then.
    ///
    /// # Errors
    /// When the log cannot be written.
    fn started(&mut self, measured_from: SystemTime) -> io::Result<()>;

    /// Adds a second of a type.
    ///
    /// # Errors
    /// When the log cannot be written.
    fn interval(&mut self, interval: &Interval) -> io::Result<()>;

    /// Writes buffered data.
    ///
    /// # Errors
    /// When the log cannot be written.
    fn finish(&mut self) -> io::Result<()>;
}
