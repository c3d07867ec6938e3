//! The started server.

mod pages;
mod scheduling;

use std::process::Command;

use psp_harness::{ServerProcess, Start};

/// Name of the server's Unix socket in its folder.
const UNIX_SOCKET: &str = "http.sock";

/// Starts the server with these flags at a free port, and on a Unix socket.
fn start(flags: &[&str]) -> ServerProcess {
    ServerProcess::start(|directory| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-http"));
        command.args(["--port", "0"]).args(flags);
        command.arg("--unix").arg(directory.join(UNIX_SOCKET));
        Start {
            command,
            port: None,
        }
    })
}
