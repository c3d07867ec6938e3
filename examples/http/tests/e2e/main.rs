//! The started server.

mod pages;
mod scheduling;

use std::process::Command;

use psp_harness::{ServerProcess, Start};

/// Starts the server with these flags at a free port.
fn start(flags: &[&str]) -> ServerProcess {
    ServerProcess::start(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-http"));
        command.args(["--port", "0"]).args(flags);
        Start {
            command,
            port: None,
        }
    })
}
