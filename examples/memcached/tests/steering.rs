//! Changing a server while it runs: SIGHUP.

mod common;

use common::{Connection, Server, wait_until};
use psp_harness::{Exchange, reloads_under_load};

fn start(config: &str) -> Server {
    Server::start_psp(&[], &[], config)
}

fn policy(client: &mut Connection) -> String {
    let settings = client.list("stats psp");
    let policy = settings
        .iter()
        .find_map(|line| line.strip_prefix("STAT policy "));
    policy.expect("a policy").to_owned()
}

#[test]
fn a_hangup_reloads_the_file() {
    if !Server::is_psp() {
        return;
    }
    let server = start("policy = 'c-fcfs'\n");
    let mut client = server.connect();
    assert_eq!(policy(&mut client), "c-fcfs");
    let text = "policy = 'sjf'\nport = 1\n[server]\nconnections_max = 77\nworkers = 9";
    std::fs::write(server.config_file(), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || policy(&mut client) == "sjf");
    wait_until("so do limits", || {
        client.stat("stats", "max_connections") == 77
    });
    wait_until("the rest is reported", || {
        let log = server.log().join("\n");
        log.contains("a restart is needed") && log.contains("server.workers")
    });
}

#[test]
fn no_request_is_lost_when_the_file_is_read_again_or_is_broken() {
    if !Server::is_psp() {
        return;
    }
    let server = start("policy = 'c-fcfs'\n");
    server.connect().expect("set a 0 0 1|x", "STORED");
    let exchange = Exchange {
        request: b"get a\r\n",
        reply: b"VALUE a 0 1\r\nx\r\nEND\r\n",
        policy: &|| policy(&mut server.connect()),
    };
    reloads_under_load(&server, &server.config_file(), exchange);
}
