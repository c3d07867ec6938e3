//! The command line. `commands` has one file for each subcommand, `args` the shared options.

mod args;
mod commands;
mod failure;
mod interrupt;
mod jobs;
mod live;
mod measurement;
mod observer;
mod output;
mod preloading;
mod progress;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{calibrate, capacity, compare, figure, preload, report, run, sim, sweep, tournament};
use failure::Failure;

/// Open-loop load generator that reports the tail latency of each request type.
///
/// `psp-loadgen URL` is short for `psp-loadgen run --target URL`, as in
/// `psp-loadgen http://127.0.0.1:8080/page -c 50 -d 30s -r 5k`.
#[derive(Debug, Parser)]
#[command(name = "psp-loadgen", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send requests at a fixed rate and report latencies, counted from intended send times
    Run(Box<run::RunArgs>),
    /// Raise the rate until an objective breaks, and report the highest that kept it
    Sweep(Box<sweep::SweepArgs>),
    /// Measure several targets in turn, in the same conditions, and report how they relate
    Compare(Box<compare::CompareArgs>),
    /// Turn results in JSON into one HTML page with plots
    Report(report::ReportArgs),
    /// Create the keys and collections that benchmarks use
    Preload(Box<preload::PreloadArgs>),
    /// Simulate policies at given loads, in virtual time, and report latencies and slowdowns
    Sim(Box<sim::SimArgs>),
    /// Find the highest load at which a policy keeps a slowdown, by simulation
    Capacity(Box<capacity::CapacityArgs>),
    /// Find SLOs for types, by simulation of each type alone
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Compare a policy with all others on many random workloads, by simulation
    Tournament(Box<tournament::TournamentArgs>),
    /// Draw the figures of the papers from simulations of these policies
    Figure(figure::FigureArgs),
    #[command(external_subcommand)]
    Short(Vec<OsString>),
}

/// The command line that begins with a URL.
fn short(words: Vec<OsString>) -> Command {
    let mut command = psp_manual::take_negative_numbers(Cli::command());
    let first = words[0].to_string_lossy();
    if !first.contains(':') {
        command
            .error(ErrorKind::InvalidSubcommand, format!("unrecognized subcommand '{first}'"))
            .exit();
    }
    let run = ["psp-loadgen", "run", "--target"].into_iter().map(OsString::from);
    let matches = command.try_get_matches_from_mut(run.chain(words));
    let matches = matches.unwrap_or_else(|error| psp_manual::in_words(error, &mut command).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
    cli.command
}

/// Parses the command line and runs the subcommand.
pub(crate) fn main() -> Result<(), Failure> {
    let command = match psp_manual::parse::<Cli>().command {
        Command::Short(words) => short(words),
        command => command,
    };
    match command {
        Command::Short(_) => unreachable!("a URL is followed by `run`"),
        Command::Run(args) => run::run(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Report(args) => report::report(&args),
        Command::Preload(args) => preload::preload(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Capacity(args) => capacity::capacity(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Tournament(args) => tournament::tournament(&args),
        Command::Figure(args) => figure::figure(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
