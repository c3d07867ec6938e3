//! Counts and latencies of a run: per type, per second, and as logs.

mod clock;
mod errors;
mod hdr_log;
mod interval_log;
mod intervals;
mod json_lines;
mod recorder;
mod stalls;
mod type_record;

pub use errors::ErrorCounts;
pub use hdr_log::HdrLog;
pub use interval_log::IntervalLog;
pub use intervals::{INTERVAL, Interval, TimelinePoint};
pub use json_lines::JsonLines;
pub use recorder::LiveCounters;
pub use stalls::{STALL_MIN, Stalls, Witnesses};
pub use type_record::TypeRecord;

pub(crate) use clock::RunClock;
pub(crate) use intervals::{IntervalCollector, IntervalRecorder};
pub(crate) use recorder::{Failure, Notes, Recorder};
pub(crate) use type_record::Completions;
