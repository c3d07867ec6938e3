//! Events of the file, one a line.

use std::fmt;
use std::io::{self, Write};

/// Everything is of one process.
pub(crate) const PROCESS: u32 = 1;
/// The thread of requests, which no worker is.
pub(crate) const REQUESTS: u32 = 0;

/// The thread of a worker.
pub(crate) fn thread_of(worker: usize) -> u32 {
    u32::try_from(worker).unwrap_or(u32::MAX - 1) + 1
}

/// Nanoseconds as microseconds.
pub(crate) struct Micros(pub(crate) u64);

impl fmt::Display for Micros {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The events of the file.
pub(crate) struct Events<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> Events<W> {
    pub(crate) fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Self { out, is_first: true })
    }

    /// An event of this phase on this thread, and its other fields.
    pub(crate) fn event(&mut self, phase: char, thread: u32, fields: fmt::Arguments<'_>) -> io::Result<()> {
        let separator = if self.is_first { "" } else { ",\n" };
        self.is_first = false;
        write!(self.out, "{separator}{{\"ph\":\"{phase}\",\"pid\":{PROCESS},\"tid\":{thread},{fields}}}")
    }

    /// Ends the file with what is known about it, as names and JSON.
    pub(crate) fn end(mut self, about: &[(&str, String)]) -> io::Result<()> {
        self.out.write_all(b"\n],\"otherData\":{")?;
        for (index, (name, value)) in about.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(self.out, "{separator}{}:{value}", quoted(name))?;
        }
        self.out.write_all(b"}}\n")?;
        self.out.flush()
    }
}
