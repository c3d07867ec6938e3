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
    assert!(printed.starts_with("Error: policy mq preempts requests"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn what_is_wrong_is_named_as_it_was_written() {
    for (open_files, flags, expected) in [
        (
            20,
            &[][..],
            "Error: the limit of open files (ulimit -n) is 20: the server needs 33 at least",
        ),
        (
            1024,
            &["--unix-mode", "700"],
            "unix_mode is 0o700, it must be unset where no Unix socket is set",
        ),
        (1024, &["--slow-ms", "-1"], "'-1' is out of range for '--slow-ms <N>'"),
    ] {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {open_files}; exec timeout 10 \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_psp-http"), "--port", "0"]);
        let output = shell.args(flags).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && printed.contains(expected), "{printed}");
    }
}

/// Starts the server with these flags at a free port, and on a Unix socket.
fn start(flags: &[&str]) -> ServerProcess {
    ServerProcess::start(|directory| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psp-http"));
        command.args(["--port", "0"]).args(flags);
        command.arg("--unix").arg(directory.join(UNIX_SOCKET));
        Start { command, port: None }
    })
}
