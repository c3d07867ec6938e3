//! HDR interval logs, version 2: the whole distribution of every second and type, for
//! HistogramLogProcessor and plotters of its files.
//!
//! The tag of an interval is its type's name, with `_` for characters that a tag cannot hold.
//! Values are nanoseconds. The column of maxima is in milliseconds, as the tools expect.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use super::interval_log::IntervalLog;
use super::intervals::{INTERVAL, Interval};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

/// The column of maxima is in milliseconds.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// Writes a log during a run.
pub struct HdrLog<W: Write> {
    out: W,
    serializer: V2DeflateSerializer,
    tags: Vec<String>,
    base: Option<SystemTime>,
    /// From the base to the start of the current run's measurement.
    offset: Duration,
    line: Vec<u8>,
}

impl<W: Write> HdrLog<W> {
    /// A log of types with these names, in the plan's order.
    pub fn new(out: W, names: &[String]) -> Self {
        Self {
            out,
            serializer: V2DeflateSerializer::new(),
            tags: names.iter().map(|name| tag(name)).collect(),
            base: None,
            offset: Duration::ZERO,
            line: Vec::new(),
        }
    }
}

impl<W: Write> IntervalLog for HdrLog<W> {
    /// The first run begins at the log's time 0, and later runs continue the log.
    fn started(&mut self, measured_from: SystemTime) -> io::Result<()> {
        if let Some(base) = self.base {
            self.offset = measured_from.duration_since(base).unwrap_or_default();
            return Ok(());
        }
        self.base = Some(measured_from);
        IntervalLogWriterBuilder::new()
            .add_comment("[Latencies in ns from the intended send time; a tag for each type]")
            .add_comment("[Histogram log format version 1.3]")
            .with_start_time(measured_from)
            .with_base_time(measured_from)
            .begin_log_with(&mut self.out, &mut self.serializer)?;
        let heads = r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;
        writeln!(self.out, "{heads}")
    }

    /// Seconds without completed requests are left out.
    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        if interval.latency_ns.is_empty() {
            return Ok(());
        }
        let tag = self.tags.get(interval.type_index).map(String::as_str);
        let second = u32::try_from(interval.second).unwrap_or(u32::MAX);
        self.line.clear();
        let written = IntervalLogWriterBuilder::new()
            .with_max_value_divisor(MAX_VALUE_DIVISOR)
            .begin_log_with(&mut self.line, &mut self.serializer)?
            .write_histogram(&interval.latency_ns, self.offset + INTERVAL * second, INTERVAL, tag.and_then(Tag::new));
        match written {
            Ok(()) => {}
            Err(IntervalLogWriterError::IoError(error)) => return Err(error),
            Err(IntervalLogWriterError::SerializeError(error)) => {
                return Err(io::Error::other(error));
            }
        }
        // A builder repeats its divisor as a comment.
        let mut lines = self.line.split_inclusive(|byte| *byte == b'\n');
        self.out.write_all(lines.next_back().unwrap_or_default())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn tag(name: &str) -> String {
    name.replace([',', ' ', '\r', '\n'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use psp_sim::measure::new_histogram;

    #[test]
    fn a_log_can_be_read_back_with_tags_and_times() {
        let mut file = Vec::new();
        let mut log = HdrLog::new(&mut file, &["GET".to_owned(), "LRANGE big 0 -1".to_owned()]);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        log.started(start).unwrap();
        let mut interval = Interval {
            type_index: 0,
            second: 0,
            failed: 0,
            latency_ns: new_histogram(),
        };
        log.interval(&interval).unwrap();
        interval.latency_ns.record(5_000_000).unwrap();
        log.interval(&interval).unwrap();
        log.started(start + Duration::from_secs(10)).unwrap();
        (interval.type_index, interval.second) = (1, 2);
        log.interval(&interval).unwrap();
        log.finish().unwrap();

        let mut intervals = Vec::new();
        for entry in IntervalLogIterator::new(&file) {
            match entry.unwrap() {
                LogEntry::Interval(read) => {
                    assert!((read.max() - 5.0).abs() < 0.01);
                    assert_eq!(read.duration(), INTERVAL);
                    assert!(read.encoded_histogram().starts_with("HISTFAAA"));
                    let tag = read.tag().unwrap().as_str().to_owned();
                    intervals.push((tag, read.start_timestamp().as_secs()));
                }
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                    assert_eq!(time.as_secs(), 1_000);
                }
            }
        }
        let expected = [("GET".to_owned(), 0), ("LRANGE_big_0_-1".to_owned(), 12)];
        assert_eq!(intervals, expected);
    }
}
