//! Output to standard output and to files.

use std::io::Write;
use std::path::Path;
use std::{fmt, fs};

use anyhow::Context;
use clap::ValueEnum;
use psp_loadgen::page::{Results, html};
use serde::Serialize;

use crate::cli::failure::Failure;

/// The output formats of a report that is not a flat table.
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

/// One JSON object, indented.
pub(super) fn json(report: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// Writes `text`. A reader that stops early is not an error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes a page with all results.
pub(super) fn write_page(path: &Path, title: &str, results: &[Results]) -> Result<(), Failure> {
    write_file(path, &html(title, results))
}

/// Writes a text file.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::work)
}
