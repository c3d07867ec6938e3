//! Changes to a running server by SIGHUP.

use std::fs;
use std::path::PathBuf;

use crate::common::{CONFIG_FILE, Connection, start};
use prost::Message;
use psp_harness::{Exchange, ServerProcess, reloads_under_load, wait_until};
use psp_protocols::kv::{GET, GetRequest, GetResponse};
use psp_protocols::rpc::{RequestRef, ResponseRef};

fn config_file(server: &ServerProcess) -> PathBuf {
    server.directory().join(CONFIG_FILE)
}

/// The current policy, read from the log because no method returns it; empty before the log names it.
fn policy(server: &ServerProcess) -> String {
    let log = server.log();
    let mut lines = log.iter().rev();
    let line = lines.find_map(|line| line.split_once("policy=\""));
    let name = line.and_then(|(_, policy)| policy.split(['"', ' ']).next());
    name.unwrap_or_default().to_owned()
}

#[test]
fn a_hangup_reloads_the_file() {
    let server = start("memory", &[], "policy = 'darc'\n");
    wait_until("the log names the policy", || policy(&server) == "darc");
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    let text = "policy = 'c-fcfs'\nsync = false\n[server]\nworkers = 9\nconnections_max = 77\n";
    fs::write(config_file(&server), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || policy(&server) == "c-fcfs");
    wait_until("the log names the settings that need a restart", || {
        let log = server.log().join("\n");
        let settings = ["a restart is needed", "server.workers", "sync"];
        settings.iter().all(|part| log.contains(part))
    });
    assert_eq!(client.get(b"k").unwrap(), b"v");
}

#[test]
fn reloading_a_valid_or_broken_file_loses_no_request() {
    let server = start("memory", &[], "policy = 'c-fcfs'\n");
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    let payload = GetRequest { key: b"k".to_vec() }.encode_to_vec();
    let request = RequestRef { id: 1, method: GET, deadline_us: 0, payload: &payload };
    let value = GetResponse { value: b"v".to_vec() }.encode_to_vec();
    let (mut request_frame, mut reply_frame) = (Vec::new(), Vec::new());
    request.encode_frame(&mut request_frame);
    ResponseRef::ok(1, &value).encode_frame(&mut reply_frame);
    let exchange = Exchange {
        request: request_frame.leak(),
        reply: reply_frame.leak(),
        policy: &|| policy(&server),
    };
    reloads_under_load(&server, &config_file(&server), exchange);
}
