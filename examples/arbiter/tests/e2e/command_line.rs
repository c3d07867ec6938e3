//! What the program prints.

use psp_arbiter::status::Status;

use crate::fixture::{Arbiter, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn status_is_a_table_or_json() {
    let mut arbiter = Arbiter::by_affinity();
    arbiter.start();
    let socket = arbiter.socket();
    let socket = socket.to_str().unwrap();
    let table = text(&run(&["status", "--socket", socket]).stdout);
    assert!(table.contains("mechanism affinity") && table.contains("unmanaged"), "{table}");
    let json = run(&["status", "--socket", socket, "--json"]).stdout;
    let status: Status = serde_json::from_slice(&json).unwrap();
    assert_eq!(status, arbiter.status());
}

#[test]
fn without_an_arbiter_the_error_names_the_socket() {
    let ended = run(&["status", "--socket", "/nowhere/socket"]);
    assert!(!ended.status.success());
    let error = text(&ended.stderr);
    assert!(error.contains("cannot reach an arbiter at /nowhere/socket"), "{error}");
}

#[test]
fn what_cannot_be_managed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let socket = socket.to_str().unwrap();
    let only_one = ["--socket", socket, "--mechanism", "affinity", "--cores", "0"];
    let error = text(&run(&only_one).stderr);
    assert!(error.contains("there must be at least 2 cores"), "{error}");
    let nowhere = ["--socket", socket, "--mechanism", "cpuset-v1", "--parent", "psp-no-such-group"];
    let error = text(&run(&nowhere).stderr);
    assert!(error.contains("psp-no-such-group") || error.contains("is mounted here"), "{error}");
}

#[test]
fn a_configuration_is_printed() {
    let printed = text(&run(&["--reserve", "2", "--print-config"]).stdout);
    assert!(printed.contains("reserve = 2") && printed.contains("mechanism = \"auto\""), "{printed}");
}
