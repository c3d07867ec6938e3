//! The program: its configuration and its exit.

use std::process::Command;

use crate::common::{Connection, start};

fn output(flags: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-rocksdb"));
    let output = command.args(flags).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_configuration_is_printed_and_an_invalid_one_refused() {
    let (is_done, printed, _) = output(&["--workers", "3", "--preload", "5000", "--print-config"]);
    assert!(is_done && printed.contains("workers = 3") && printed.contains("preload = 5000"));
    let (is_done, _, errors) = output(&["--engine", "rocksdb"]);
    assert!(!is_done && errors.contains("--data-dir"), "{errors}");
}

#[test]
#[cfg(not(feature = "rocksdb"))]
fn a_build_without_rocksdb_names_the_missing_feature() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = ["--engine", "rocksdb", "--data-dir", data.to_str().unwrap()];
    let (is_done, _, errors) = output(&flags);
    assert!(!is_done && errors.contains("--features rocksdb"), "{errors}");
}

#[test]
fn a_terminated_server_exits_with_success() {
    let mut server = start("memory", &[], "");
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    server.terminate();
    assert!(server.wait_for_exit().success(), "{:?}", server.log());
}
