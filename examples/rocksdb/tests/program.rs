//! The program: its configuration, and its end.

mod common;

use std::process::Command;

use common::{Connection, start};

fn output(flags: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-rocksdb"));
    let output = command.args(flags).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_configuration_is_printed_and_wrong_ones_are_refused() {
    let (is_done, printed, _) = output(&["--workers", "3", "--preload", "5000", "--print-config"]);
    assert!(is_done && printed.contains("workers = 3") && printed.contains("preload = 5000"));
    let (is_done, _, errors) = output(&["--engine", "rocksdb"]);
    assert!(!is_done && errors.contains("--data-dir"), "{errors}");
}

#[test]
#[cfg(not(feature = "rocksdb"))]
fn a_build_without_rocksdb_says_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = ["--engine", "rocksdb", "--data-dir", data.to_str().unwrap()];
    let (is_done, _, errors) = output(&flags);
    assert!(
        !is_done && errors.contains("--features rocksdb"),
        "{errors}"
    );
}

#[test]
fn a_server_that_is_told_to_end_does() {
    let mut server = start("memory", &[], "");
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    server.terminate();
    assert!(server.wait_for_exit().success(), "{:?}", server.log());
}
