//! Runs a client program to its end.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

/// Runs `command` with `input` on its standard input and returns what it printed.
///
/// # Panics
/// When the program cannot be started, or fails. The message has all its output.
pub fn run_program(command: &mut Command, input: &str) -> String {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    let mut stdin = process.stdin.take().expect("a piped stdin");
    let input = input.to_owned();
    let feeder = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = process.wait_with_output().unwrap();
    // Writing fails if the program ends without reading its input. Its status shows whether that is a failure.
    let _ = feeder.join().expect("the feeding thread ends");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.trim().is_empty(),
        "{command:?}: {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
        output.status
    );
    stdout
}
