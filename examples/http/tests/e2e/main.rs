//! The started server.

mod control_groups;
mod pages;
mod scheduling;

use std::process::Command;

use psp_harness::{ServerProcess, Start};

/// Name of the server's Unix socket in its folder.
const UNIX_SOCKET: &str = "http.sock";

#[test]
fn a_server_that_cannot_start_prints_one_line() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-http"));
    command.args(["--port", "0", "--policy", "mq", "--topology", "inline"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(
        printed.starts_with("Error: policy mq preempts requests"),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

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
