//! The lines of a file of recorded arrivals.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line.
const LINE_BYTES_MAX: u64 = 4096;

/// Latest arrival, in seconds from the first: a hundred days.
const TIME_S_MAX: f64 = 8.64e6;

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: String,
        /// The line's number, from 1.
        line: u64,
        /// The error in the line.
        reason: String,
    },
    /// There are no arrivals.
    #[error("{path} has no arrivals")]
    Empty {
        /// The file.
        path: String,
    },
    /// The speed is out of its range.
    #[error("a trace's speed is a number above 0, not {speed}")]
    Speed {
        /// The speed.
        speed: f64,
    },
}

/// The lines of a file that hold an arrival.
pub(super) struct Lines {
    input: BufReader<File>,
    path: String,
    line: Vec<u8>,
    number: u64,
    first_s: Option<f64>,
    last_s: f64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Self {
                input: BufReader::new(file),
                path: name,
                line: Vec::new(),
                number: 0,
                first_s: None,
                last_s: 0.0,
            }),
            Err(source) => Err(TraceError::Read { path: name, source }),
        }
    }

    pub(super) fn fault(&self, reason: &str) -> TraceError {
        TraceError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: reason.to_owned(),
        }
    }

    /// The next arrival: seconds after the first, and the second column.
    pub(super) fn next_arrival(&mut self) -> Result<Option<(f64, Option<&str>)>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX + 1);
            let count = bounded
                .read_until(b'\n', &mut self.line)
                .map_err(|source| TraceError::Read {
                    path: self.path.clone(),
                    source,
                })?;
            if count == 0 {
                return Ok(None);
            }
            if count as u64 > LINE_BYTES_MAX {
                return Err(self.fault(&format!("more than {LINE_BYTES_MAX} bytes")));
            }
            let text = self.line.trim_ascii();
            if !text.is_empty() && text[0] != b'#' {
                break;
            }
        }
        let (time, column) = match str::from_utf8(&self.line) {
            Ok(text) => {
                let text = text.trim();
                let time = text.split_whitespace().next().unwrap_or_default();
                let column = text[time.len()..].trim_start();
                (time, (!column.is_empty()).then_some(column))
            }
            Err(_) => return Err(self.fault("it is not UTF-8")),
        };
        let Some(time_s) = time.parse().ok().filter(|time: &f64| time.is_finite()) else {
            return Err(self.fault(&format!("`{time}` is not a time in seconds")));
        };
        let first_s = *self.first_s.get_or_insert(time_s);
        let at_s = time_s - first_s;
        if at_s < self.last_s {
            let reason = format!("time {time} lies before that of the line before");
            return Err(self.fault(&reason));
        }
        if at_s > TIME_S_MAX {
            let reason = format!("time {time} is more than {TIME_S_MAX} s after the first");
            return Err(self.fault(&reason));
        }
        self.last_s = at_s;
        Ok(Some((at_s, column)))
    }
}
