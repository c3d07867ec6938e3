//! Reads the requests of a file in order.

use std::path::Path;

use super::format::TraceFormat;
use super::lines::{Lines, TraceError};
use super::parse::{Entry, Found, Parse};

/// Latest arrival, in seconds from the first: a hundred days.
const TIME_S_MAX: f64 = 8.64e6;

/// How far times of a log may lie before those of lines above, in seconds. Servers log a request when it ends, and
/// some with the time when it began.
const BACK_S_MAX: f64 = 600.0;

/// The requests of a file.
pub(super) struct Reader {
    lines: Lines,
    parser: Box<dyn Parse>,
    entry: Entry,
    is_log: bool,
    first_s: Option<f64>,
    last_s: f64,
    left_out: LeftOut,
}

/// The lines without a request that can be sent.
#[derive(Debug, Default)]
struct LeftOut {
    count: u64,
    /// Lines of both kinds.
    of: u64,
    /// Number of the first, and what is wrong with it.
    first: Option<(u64, &'static str)>,
}

impl Reader {
    /// Opens a file. `are_named` says whether requests only name types.
    pub(super) fn open(path: &Path, format: TraceFormat, are_named: bool) -> Result<Self, TraceError> {
        Ok(Self {
            lines: Lines::open(path)?,
            parser: format.parser(are_named),
            entry: Entry::default(),
            is_log: format.is_log(),
            first_s: None,
            last_s: 0.0,
            left_out: LeftOut::default(),
        })
    }

    pub(super) fn fault(&self, reason: impl Into<String>) -> TraceError {
        self.lines.fault(reason)
    }

    /// The next arrival: seconds after the first, and what identifies its command or names its type.
    pub(super) fn next_arrival(&mut self) -> Result<Option<(f64, Option<&str>)>, TraceError> {
        loop {
            let found = self.parser.next(&mut self.lines, &mut self.entry)?;
            let reason = match found {
                Found::End => return Ok(None),
                Found::Other(reason) => reason,
                Found::Request => match self.at_s()? {
                    Some(at_s) => {
                        self.left_out.of += 1;
                        self.last_s = at_s;
                        let column = &self.entry.column;
                        return Ok(Some((at_s, (!column.is_empty()).then_some(column))));
                    }
                    None => "its time lies more than ten minutes before that of a line above",
                },
            };
            self.left_out.of += 1;
            self.left_out.count += 1;
            self.left_out.first.get_or_insert((self.lines.number(), reason));
        }
    }

    /// When the present request came, in seconds after the first. `None` if its line is left out.
    fn at_s(&mut self) -> Result<Option<f64>, TraceError> {
        let first_s = *self.first_s.get_or_insert(self.entry.time_s);
        let at_s = self.entry.time_s - first_s;
        if at_s > TIME_S_MAX {
            let reason = format!("its time is more than {TIME_S_MAX} s after the first");
            return Err(self.fault(reason));
        }
        if at_s >= self.last_s {
            return Ok(Some(at_s));
        }
        if !self.is_log {
            return Err(self.fault("its time lies before that of the line before"));
        }
        Ok((self.last_s - at_s <= BACK_S_MAX).then_some(self.last_s))
    }

    /// Says which lines were left out; `None` if none was.
    pub(super) fn left_out(&self) -> Option<String> {
        let LeftOut { count, of, .. } = self.left_out;
        let (line, reason) = self.left_out.first?;
        Some(format!("{count} of {of} lines are left out, the first is line {line}: {reason}"))
    }

    /// Whether more than half of the lines were left out.
    pub(super) const fn lacks_requests(&self) -> bool {
        self.left_out.count > self.left_out.of / 2
    }
}
