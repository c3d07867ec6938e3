//! What the program prints: help, or what is wrong in a line.

use std::process::Command;

/// The status of the program, what it prints, and its errors.
fn run(argument: &str) -> (Option<i32>, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_psp-axum"));
    let output = program.arg(argument).env("RUST_BACKTRACE", "1").output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn help_is_asked_for_and_errors_are_one_line() {
    for flag in ["-h", "--help"] {
        let (status, out, err) = run(flag);
        assert_eq!((status, &*err), (Some(0), ""));
        assert!(out.starts_with("Usage: psp-axum [ADDRESS]\n"), "{out}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for argument in [&*address, "--no-such"] {
        let (status, out, err) = run(argument);
        assert_eq!((status, &*out), (Some(1), ""));
        assert!(err.starts_with(&format!("Error: cannot listen on {argument}: ")), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}
