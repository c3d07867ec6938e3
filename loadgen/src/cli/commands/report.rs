//! `psp-loadgen report`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use psp_loadgen::page::{Results, latency_svg};

use crate::cli::failure::Failure;
use crate::cli::output::{write_file, write_page};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  for rate in 1000 5000 10000; do
      psp-loadgen run --target redis://127.0.0.1 --mix GET:1 --rate $rate --output json >$rate.json
  done
  psp-loadgen report *.json --out page.html
  The latency of GETs of several servers as a picture:
    psp-loadgen compare ... --output json >results.json
    psp-loadgen report results.json --svg latency.svg --type GET

A file holds what --output json of run, sweep, compare, sim or capacity prints. The page and the picture need
no other file and open offline. The picture follows the reader's choice of light or dark colours.

Exit codes: 0 everything was written, 1 something was not, 2 the command line is wrong.")]
pub(crate) struct ReportArgs {
    /// Results in JSON
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write all tables and plots into one HTML page
    #[arg(long, value_name = "FILE", required_unless_present = "svg")]
    out: Option<PathBuf>,
    /// Title of the page
    #[arg(long, default_value = "psp-loadgen")]
    title: String,
    /// Write the latency percentiles of one type as an SVG picture, one curve for each target
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The type that --svg shows [default: the first type of the results]
    #[arg(long = "type", value_name = "NAME", requires = "svg")]
    type_name: Option<String>,
}

pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let results: anyhow::Result<Vec<_>> = args.files.iter().map(|path| read(path)).collect();
    let results = results.map_err(Failure::work)?;
    if let Some(path) = &args.svg {
        let picture = latency_svg(&results, args.type_name.as_deref()).map_err(Failure::work)?;
        write_file(path, &picture)?;
    }
    match &args.out {
        Some(path) => write_page(path, &args.title, &results),
        None => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let json = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Results::from_json(&json).with_context(|| path.display().to_string())
}
