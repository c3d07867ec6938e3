//! How the server starts, or why it does not: what is wrong is named as the user wrote it.

use std::fs;
use std::process::Command;

use crate::common::{Options, Server, TOPOLOGIES};

/// What a server that does not start prints, which is one line. It may open so many files.
fn refusal(open_files: u32, file: &str, flags: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("psp-redis.toml");
    fs::write(&path, file).unwrap();
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {open_files}; exec timeout 10 \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_psp-redis"), "--port", "0"]);
    let output = shell.arg("--config").arg(path).args(flags).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed.lines().count(), 1, "{printed}");
    printed
}

#[test]
fn a_limit_of_open_files_without_room_for_a_client_is_named() {
    for open_files in [12, 20, 32] {
        for topology in TOPOLOGIES {
            let printed = refusal(open_files, "", &["--topology", topology]);
            let expected =
                format!("Error: the limit of open files (ulimit -n) is {open_files}: the server needs 33 at least\n");
            assert_eq!(printed, expected, "{topology}");
        }
    }
    // Each worker that receives for itself has files of its own.
    for open_files in [40, 70, 90] {
        let printed = refusal(open_files, "", &["--topology", "distributed", "--workers", "16"]);
        let expected = format!("Error: the limit of open files (ulimit -n) is {open_files}");
        assert!(printed.starts_with(&expected), "{printed}");
    }
    let server = Server::start_with(&Options { open_files: Some(34), ..Options::default() });
    server.connect().wait_for_clients(1);
    server.assert_alive();
}

#[test]
fn settings_that_cannot_be_are_named_as_they_were_written() {
    for (file, flags, expected) in [
        ("bind = []", &[][..], "bind (--bind) is empty"),
        (
            "",
            &["--unixsocketperm", "700"],
            "sockets.unix-mode (--unixsocketperm) is 0o700, it must be unset where no Unix socket is set",
        ),
        ("", &["--maxclients", "0"], "server.connections-max (--maxclients) is 0, "),
        ("", &["--request-len-max", "10"], "limits.request-len-max (--request-len-max) is 10, "),
        (
            "[[types]]\nname = 'healthy'",
            &[],
            "there is no request type healthy; the types are health, read, write, range, scan",
        ),
    ] {
        let printed = refusal(1024, file, flags);
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn a_file_can_make_health_a_type_like_others() {
    for (config, is_control) in [("", true), ("[[types]]\nname = 'health'\ncontrol = false\n", false)] {
        let server = Server::start_with(&Options {
            topology: Some("dedicated"),
            workers: Some(2),
            config: Some(config),
            ..Options::default()
        });
        let info = server.connect().info("psp");
        assert!(info.contains("psp_worker_1:"), "{info}");
        // The net thread runs control requests, as one more worker.
        assert_eq!(info.contains("psp_worker_2:"), is_control, "{info}");
    }
}
