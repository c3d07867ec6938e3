//! Local sockets.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use psp_protocols::resp::Resp;
use tempfile::TempDir;

use super::program::{assert_every_arrival_ends_once, call, count, real_server, run};
use crate::scripted::serve::{Answer, serve};

/// A RESP server on a local socket at `path`.
fn resp_server(path: &Path, script: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let script = Arc::clone(&script);
            // A client that disconnects is not a failure of the server.
            thread::spawn(move || serve(socket?, &Resp::default(), &*script));
        }
    });
}

fn socket_in(dir: &TempDir) -> String {
    dir.path().join("server.sock").to_str().unwrap().to_owned()
}

#[test]
fn a_local_socket_is_measured_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = socket_in(&dir);
    let requests = AtomicU64::new(0);
    resp_server(Path::new(&path), move |_| match requests.fetch_add(1, Ordering::Relaxed) % 20 {
        19 => Answer::Close,
        18 => Answer::Reply(b"-BUSY queue is full\r\n"),
        _ => Answer::Reply(b"+OK\r\n"),
    });
    for (target, option) in [(format!("redis+unix:{path}"), ""), (format!("unix:{path}"), "--protocol redis")] {
        let report = run(&target, "GET@400/s", &format!("{option} --ramp 0.1"));
        assert_eq!(report["target"], target);
        assert_every_arrival_ends_once(&report);
        assert_eq!(count(&report, "scheduled"), 200);
        assert_eq!(count(&report, "completed"), 180);
        let errors = &report["types"][0]["errors"];
        assert_eq!((&errors["BUSY"], &errors["CONNECTION"]), (&10.into(), &10.into()));
        assert!(count(&report, "reconnects") > 0);
    }
}

#[test]
fn a_socket_without_a_server_or_a_protocol_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = socket_in(&dir);
    for (target, code, reason) in [
        (format!("redis+unix:{path}"), 1, "cannot connect to redis+unix:"),
        (format!("unix:{path}"), 2, "give --protocol"),
    ] {
        let output = call(&["run", "--target", &target, "--mix", "GET@1/s"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(reason), "{errors}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn redis_server_is_measured_on_its_local_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = socket_in(&dir);
    let target = format!("redis+unix:{path}");
    let command = format!("redis-server --port 0 --save '' --unixsocket {path}");
    let _server = real_server(&command, &target);
    let report = run(&target, "GET:9,SET:1", "--rate 1000 --preload --keys 1000");
    assert_every_arrival_ends_once(&report);
    assert_eq!(report["overall"]["completed"], 500);
}
