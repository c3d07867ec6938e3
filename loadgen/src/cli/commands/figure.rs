//! `psp-loadgen figure`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use psp_sim::chart::{CSV_HEADER, Drawing, svg};
use psp_sim::figure::{self, Figure, Plot, Scale};

use crate::cli::failure::Failure;
use crate::cli::output::print;
use crate::cli::progress::Progress;

/// Requests of a simulation.
const REQUESTS: u64 = 1_000_000;
/// Requests of a simulation with --quick.
const REQUESTS_QUICK: u64 = 10_000;

const ALL: &str = "all";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  psp-loadgen figure --list
  psp-loadgen figure persephone-1 --out figure.svg --data figure.csv
  psp-loadgen figure all --out figures --quick
  psp-loadgen figure mine.toml --out mine.svg

The command prints the numbers of the papers' texts beside the figures' numbers. After Ctrl-C it draws the
finished points.

Exit codes: 0 the figures were drawn, 1 something failed, 2 the command line is wrong, 130 it was
interrupted.")]
pub(crate) struct FigureArgs {
    /// A figure by name, all of them, or those that a file defines (docs/figures.md)
    #[arg(value_name = "NAME|all|FILE.toml", required_unless_present = "list")]
    name: Option<String>,
    /// The SVG file to write, or a folder for NAME.svg
    #[arg(long, value_name = "FILE.svg|DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Also write the numbers behind the figures
    #[arg(long, value_name = "FILE.csv")]
    data: Option<PathBuf>,
    /// Requests measured in each simulation [default: 1000000, and 10000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Simulate few requests: lines are drawn, but tails are rough
    #[arg(long)]
    quick: bool,
    /// Seed of arrivals and service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the names of all figures, and where others of the papers are, and exit
    #[arg(long)]
    list: bool,
}

pub(crate) fn figure(args: &FigureArgs) -> Result<(), Failure> {
    if args.list {
        let drawn = figure::all().map(|figure| (&figure.name, &figure.title));
        let all = drawn.chain(figure::elsewhere().map(|other| (&other.figure, &other.place)));
        let rows: String = all.map(|(name, about)| format!("{name:16} {about}\n")).collect();
        return print(&rows).map_err(Failure::work);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let own = own_figures(name).map_err(Failure::usage)?;
    let figures = figures(name, &own).map_err(Failure::usage)?;
    let requests = if args.quick { REQUESTS_QUICK } else { REQUESTS };
    let scale = Scale { requests: args.requests.unwrap_or(requests), seed: args.seed };
    let out = args.out.as_deref().unwrap_or(Path::new("."));
    let is_folder = figures.len() > 1 || out.is_dir();
    if is_folder {
        fs::create_dir_all(out)
            .with_context(|| format!("cannot create {}", out.display()))
            .map_err(Failure::work)?;
    }

    let plot = Plot::new(&figures, &scale).map_err(Failure::work)?;
    let progress = Progress::start("figure", plot.steps())?;
    let drawings = plot.run(|| progress.observer());
    progress.finish();
    let mut drawings = drawings.map_err(Failure::work)?;
    drawings.retain(Drawing::has_points);

    for drawing in &drawings {
        let file = format!("{}.svg", drawing.name);
        let path = if is_folder { out.join(file) } else { out.to_owned() };
        write(&path, &svg(drawing)).map_err(Failure::work)?;
    }
    if let Some(path) = &args.data {
        let rows = drawings.iter().map(Drawing::csv_rows);
        let table: String = std::iter::once(CSV_HEADER.to_owned()).chain(rows).collect();
        write(path, &table).map_err(Failure::work)?;
    }
    print(&comparison(&figures, &drawings)).map_err(Failure::work)?;
    if progress.is_interrupted() {
        let done = format!("{} of {} figures were drawn", drawings.len(), figures.len());
        return Err(Failure::interrupted(done));
    }
    Ok(())
}

/// The figures of a file, if it is one.
fn own_figures(name: &str) -> anyhow::Result<Vec<Figure>> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|end| end == "toml");
    Ok(if is_file { figure::read(path)? } else { Vec::new() })
}

fn figures<'a>(name: &str, own: &'a [Figure]) -> anyhow::Result<Vec<&'a Figure>> {
    if !own.is_empty() {
        return Ok(own.iter().collect());
    }
    if name == ALL {
        return Ok(figure::all().collect());
    }
    let known = || figure::all().map(|figure| figure.name.as_str()).collect::<Vec<_>>().join(", ");
    let figure = figure::named(name).ok_or_else(|| {
        anyhow!(
            "no figure is called `{name}`; there are {}, {ALL}, and files whose names end in .toml",
            known()
        )
    })?;
    Ok(vec![figure])
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A table of the papers' numbers and ours.
fn comparison(figures: &[&Figure], drawings: &[Drawing]) -> String {
    let mut table = String::new();
    for drawing in drawings {
        let figure = figures.iter().find(|figure| figure.name == drawing.name);
        let rows = figure.map_or_else(String::new, |figure| figure::claim_rows(&figure.claims, drawing));
        if !rows.is_empty() {
            table += &format!("\n{}\n\n{}{rows}", drawing.title, figure::CLAIMS_HEADER);
        }
    }
    table
}
