//! A program that cannot start prints one line and fails.

use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_psp-synthetic");

/// Runs a command that fails. Returns what it printed.
fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn wrong_settings_are_one_line() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("psp-synthetic.toml");
    std::fs::write(&file, "[server]\nqueue_capacity = 1000000000\n").unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 4] = [
        (
            &["--workers", "5000000000"],
            "server.workers (--workers) is 5000000000, it must be between 1 and 1024",
        ),
        (&["--workers", "0"], "server.workers (--workers) is 0, it must be between 1 and 1024"),
        (
            &["--config", file],
            "server.queue-capacity is 1000000000, it must be between 1 and 1048576",
        ),
        (
            &["--policy", "mq", "--topology", "inline"],
            "cannot start the server: policy mq preempts requests, and the net thread runs some itself; it needs \
             topology dedicated",
        ),
    ];
    for (flags, expected) in cases {
        let printed = fail(Command::new(PROGRAM).args(["--port", "0"]).args(flags));
        assert_eq!(printed, format!("Error: {expected}\n"));
    }
}

/// The process has address space for the program, but not for the stack of a context.
#[test]
#[cfg(target_os = "linux")]
fn a_worker_without_stacks_is_named_and_no_address_is_logged() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("psp-synthetic.toml");
    let text = "log_level = 'info'\n[policy]\nname = 'mq'\n[server]\nworkers = 1\ntopology = 'dedicated'\n\
                contexts_per_worker = 2\nstack_bytes = 1073741824\n";
    std::fs::write(&file, text).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 800000 && exec \"$0\" \"$@\"", PROGRAM]);
    let printed = fail(shell.args(["--port", "0", "--config"]).arg(&file));
    let last = printed.lines().last().unwrap();
    assert!(
        last.starts_with("Error: worker 0 cannot start: its stacks cannot be mapped: "),
        "{printed}"
    );
    assert!(!printed.contains("listening on"), "{printed}");
}
