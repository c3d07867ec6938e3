//! Changing a server while it runs: SIGHUP.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{CONFIG_FILE, Connection, start};
use prost::Message;
use psp_harness::{Exchange, ServerProcess, reloads_under_load, wait_until};
use psp_protocols::kv::{GET, GetRequest, GetResponse};
use psp_protocols::rpc::{RequestRef, ResponseRef};

fn config_file(server: &ServerProcess) -> PathBuf {
    server.directory().join(CONFIG_FILE)
}

/// The policy in force, as the log has it, for there is no method that says; nothing before it does.
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
    wait_until("the log says what it serves by", || {
        policy(&server) == "darc"
    });
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    let text = "policy = 'c-fcfs'\nsync = false\n[server]\nworkers = 9\nconnections_max = 77\n";
    fs::write(config_file(&server), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || policy(&server) == "c-fcfs");
    wait_until("the rest is reported", || {
        let log = server.log().join("\n");
        let settings = ["a restart is needed", "server.workers", "sync"];
        settings.iter().all(|part| log.contains(part))
    });
    assert_eq!(client.get(b"k").unwrap(), b"v");
}

#[test]
fn no_request_is_lost_when_the_file_is_read_again_or_is_broken() {
    let server = start("memory", &[], "policy = 'c-fcfs'\n");
    let mut client = Connection::open(server.address());
    client.put(b"k", b"v").unwrap();
    let payload = GetRequest { key: b"k".to_vec() }.encode_to_vec();
    let request = RequestRef {
        id: 1,
        method: GET,
        deadline_us: 0,
        payload: &payload,
    };
    let value = GetResponse {
        value: b"v".to_vec(),
    }
    .encode_to_vec();
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    request.encode_frame(&mut asked);
    ResponseRef::ok(1, &value).encode_frame(&mut answered);
    let exchange = Exchange {
        request: asked.leak(),
        reply: answered.leak(),
        policy: &|| policy(&server),
    };
    reloads_under_load(&server, &config_file(&server), exchange);
}
