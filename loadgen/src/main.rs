//! `psp-loadgen` measures the tail latency of each request type of a live or simulated server.
//!
//! Exit codes: 0, the work was done; 1, it failed; 2, the command line is wrong; 3, a condition of
//! `--fail-if` holds or an objective is missed; 130, simulations, sweeps or comparisons were
//! interrupted, and the finished ones are printed. A second signal ends the program with 128 plus
//! the signal's number.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("psp-loadgen: {:#}", failure.error);
            ExitCode::from(failure.exit_code)
        }
    }
}
