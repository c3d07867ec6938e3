//! The command line: one file for each subcommand.

mod keyspace;
mod live;
mod pacing;
mod parse;
mod preload;
mod run;

use clap::{Parser, Subcommand};

/// Open-loop load generator that reports the tail latency of each request type.
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
    /// Create the keys and collections that benchmarks use
    Preload(Box<preload::PreloadArgs>),
}

/// Why the program ends without success.
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) error: anyhow::Error,
    /// 1: the work failed. 2: the command line is wrong.
    pub(crate) exit_code: u8,
}

impl Failure {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            exit_code: 2,
        }
    }

    fn work(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            exit_code: 1,
        }
    }
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Preload(args) => preload::preload(&args),
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
