//! What the parsers of all formats have in common.

use super::lines::{Lines, TraceError};

/// One request of a file.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Its time in seconds; 0 if the format has none.
    pub(super) time_s: f64,
    /// What identifies its command, or names its type. Empty if the file does not tell.
    pub(super) column: String,
}

/// What the next lines of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Request,
    /// A line without a request that can be sent, and why.
    Other(&'static str),
    End,
}

/// Finds the requests of a file.
pub(super) trait Parse: Send {
    /// Reads the next lines, and puts what they say of a request into `entry`.
    fn next(&mut self, lines: &mut Lines, entry: &mut Entry) -> Result<Found, TraceError>;
}

/// Everything that a parser finds in a file of these bytes.
#[cfg(test)]
pub(super) fn all(parser: &mut dyn Parse, bytes: &[u8]) -> Result<Vec<(f64, String)>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut lines = Lines::open(file.path()).unwrap();
    let mut entry = Entry::default();
    let mut found = Vec::new();
    loop {
        match parser.next(&mut lines, &mut entry) {
            Ok(Found::Request) => found.push((entry.time_s, entry.column.clone())),
            Ok(Found::Other(reason)) => found.push((-1.0, reason.to_owned())),
            Ok(Found::End) => return Ok(found),
            Err(error) => return Err(error.to_string()),
        }
    }
}
