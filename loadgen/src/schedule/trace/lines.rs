//! The lines of a file of recorded requests.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line, and longest request of several lines.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// What spreadsheets write before the first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

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
    /// More than half of the lines hold no request that can be sent.
    #[error("{path}: {left_out}")]
    LeftOut {
        /// The file.
        path: String,
        /// How many, and the first of them.
        left_out: String,
    },
    /// There are no arrivals.
    #[error("{path} has no arrivals")]
    Empty {
        /// The file.
        path: String,
    },
    /// The requests have no times, and there is no rate.
    #[error("{path}: the requests of this format have no times; give --rate")]
    NoTimes {
        /// The file.
        path: String,
    },
    /// The requests are whole, and do not name types of others.
    #[error("{path}: the requests of this format are whole, and name no types of a mix")]
    NoTypes {
        /// The file.
        path: String,
    },
    /// The requests are those of HTTP, and the target is not.
    #[error("{path}: the requests of this format go with http:// targets")]
    NotHttp {
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

/// The lines of a file, one at a time.
pub(super) struct Lines {
    input: BufReader<File>,
    path: String,
    line: Vec<u8>,
    number: u64,
    is_put_back: bool,
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
                is_put_back: false,
            }),
            Err(source) => Err(TraceError::Read { path: name, source }),
        }
    }

    pub(super) fn fault(&self, reason: impl Into<String>) -> TraceError {
        TraceError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: reason.into(),
        }
    }

    /// Number of the present line, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Goes to the next line. Returns whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.is_put_back) {
            self.number += 1;
            return Ok(true);
        }
        self.line.clear();
        let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let count = bounded
            .read_until(b'\n', &mut self.line)
            .map_err(|source| TraceError::Read { path: self.path.clone(), source })?;
        self.number += u64::from(count > 0);
        if count > LINE_BYTES_MAX {
            return Err(self.fault(format!("more than {LINE_BYTES_MAX} bytes")));
        }
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(count > 0)
    }

    /// Makes the present line the next one again.
    pub(super) const fn put_back(&mut self) {
        self.is_put_back = true;
        self.number -= 1;
    }

    /// The present line, its end included; empty behind the last.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The present line without blanks at its ends.
    pub(super) fn text(&self) -> Result<&str, TraceError> {
        self.utf8(self.line.trim_ascii())
    }

    /// `bytes` of the present line as text.
    pub(super) fn utf8<'a>(&self, bytes: &'a [u8]) -> Result<&'a str, TraceError> {
        str::from_utf8(bytes).map_err(|_| self.fault("it is not UTF-8"))
    }
}
