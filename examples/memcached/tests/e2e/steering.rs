//! Changes to a running server by SIGHUP.

use crate::common::{Connection, Server, wait_until};
use psp_harness::{Exchange, reloads_under_load};

fn start(config: &str) -> Server {
    Server::start_psp(&[], &[], config)
}

fn policy(client: &mut Connection) -> String {
    let settings = client.list("stats psp");
    let policy = settings.iter().find_map(|line| line.strip_prefix("STAT policy "));
    policy.expect("a policy").to_owned()
}

#[test]
fn the_range_of_workers_is_shown_with_how_many_are_present() {
    psp_harness::only_psp!();
    let server = start("[server]\nworkers = '2..3'\n");
    let mut client = server.connect();
    for (name, value) in [
        ("workers", 3),
        ("workers_min", 2),
        ("workers_went", 0),
        ("arbiter_registered", 0),
        ("arbiter_cores", 0),
    ] {
        assert_eq!(client.stat("stats psp", name), value, "{name}");
    }
    assert!((2..=3).contains(&client.stat("stats psp", "workers_present")));
}

#[test]
fn a_hangup_reloads_the_file() {
    psp_harness::only_psp!();
    let server = start("policy = 'c-fcfs'\n");
    let mut client = server.connect();
    assert_eq!(policy(&mut client), "c-fcfs");
    let text = "policy = 'sjf'\nport = 1\n[server]\nconnections_max = 77\nworkers = 9";
    std::fs::write(server.config_file(), text).unwrap();
    server.hang_up();
    wait_until("the policy changes", || policy(&mut client) == "sjf");
    wait_until("the limits change", || client.stat("stats", "max_connections") == 77);
    wait_until("the log names the settings that need a restart", || {
        let log = server.log().join("\n");
        log.contains("a restart is needed") && log.contains("server.workers")
    });
}

#[test]
fn reloading_a_valid_or_broken_file_loses_no_request() {
    psp_harness::only_psp!();
    let server = start("policy = 'c-fcfs'\n");
    server.connect().expect("set a 0 0 1|x", "STORED");
    let exchange = Exchange {
        request: b"get a\r\n",
        reply: b"VALUE a 0 1\r\nx\r\nEND\r\n",
        policy: &|| policy(&mut server.connect()),
    };
    reloads_under_load(&server, &server.config_file(), exchange);
}
