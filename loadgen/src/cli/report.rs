//! `psp-loadgen report`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use psp_loadgen::page::{Results, html};

use super::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  for rate in 1000 5000 10000; do
      psp-loadgen run --target redis://127.0.0.1 --mix GET:1 --rate $rate --output json >$rate.json
  done
  psp-loadgen report *.json --out page.html

Files are what --output json of run, sweep, compare, sim and capacity prints. The page needs nothing
else and opens offline.

Exit codes: 0 the page was written, 1 it was not, 2 the command line is wrong.")]
pub(super) struct ReportArgs {
    /// Results in JSON
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Title of the page
    #[arg(long, default_value = "psp-loadgen")]
    title: String,
}

pub(super) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let read = |path: &PathBuf| -> anyhow::Result<Results> {
        let json = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Results::from_json(&json).with_context(|| path.display().to_string())
    };
    let results: anyhow::Result<Vec<_>> = args.files.iter().map(read).collect();
    write_page(&args.out, &args.title, &results.map_err(Failure::work)?)
}

/// Writes a page with all results.
pub(super) fn write_page(path: &Path, title: &str, results: &[Results]) -> Result<(), Failure> {
    fs::write(path, html(title, results))
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::work)
}
