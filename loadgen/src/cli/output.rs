//! What goes to standard output.

use std::fmt;
use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

/// How a report is printed that is no flat table.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(super) enum TextOrJson {
    /// Tables
    #[default]
    Text,
    /// One object
    Json,
}

impl TextOrJson {
    pub(super) fn render(self, report: &(impl Serialize + fmt::Display)) -> anyhow::Result<String> {
        match self {
            Self::Text => Ok(report.to_string()),
            Self::Json => json(report),
        }
    }
}

/// One JSON object, for people to read too.
pub(super) fn json(report: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// Writes `text` as it is. That nobody reads it to its end is no failure.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
