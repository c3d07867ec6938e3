//! What a service manager is told.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use psp_harness::{DEADLINE, ServerProcess, Start};

/// Messages until one that has this line.
#[track_caller]
fn until(manager: &UnixDatagram, line: &str) {
    let mut message = [0; 1024];
    loop {
        let len = manager.recv(&mut message).unwrap();
        let text = std::str::from_utf8(&message[..len]).unwrap();
        if text.lines().any(|told| told == line) {
            return;
        }
    }
}

#[test]
fn the_manager_is_told_of_start_life_and_stop() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut server = ServerProcess::start(|_| {
        // As a manager does, the shell names the process whose watchdog it is.
        let mut command = Command::new("sh");
        command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_psp-synthetic"));
        command.args(["--tcp", "--port", "0"]);
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
        Start { command, port: None }
    });
    until(&manager, "READY=1");
    for _ in 0..3 {
        until(&manager, "WATCHDOG=1");
    }
    server.terminate();
    until(&manager, "STOPPING=1");
    assert!(server.wait_for_exit().success());
}
