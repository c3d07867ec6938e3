//! Real clients with their defaults: memccapable, pymemcache, memjs, and twemproxy in front of two
//! servers.
//!
//! These tests are ignored by default because they need those programs. `.ci/run` installs the
//! programs and runs this suite. `PSP_TEST_PYTHON` names a Python that has pymemcache; `NODE_PATH`
//! names the folder with memjs.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Connection, Server, run_program};
use psp_harness::{Protocol, start_twemproxy};

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "clients", name].iter().collect()
}

fn memccapable(protocol: &str) {
    for server in Server::start_each() {
        let mut command = Command::new("memccapable");
        command.args(["-h", "127.0.0.1", "-p", &server.port(), protocol]);
        let output = run_program(&mut command, "");
        assert_eq!(output.matches("[pass]").count(), 27, "{output}");
        assert!(output.ends_with("All tests passed\n"), "{output}");
    }
}

#[test]
#[ignore = "needs libmemcached-tools; run by .ci/run"]
fn memccapable_text() {
    memccapable("-a");
}

#[test]
#[ignore = "needs libmemcached-tools; run by .ci/run"]
fn memccapable_binary() {
    memccapable("-b");
}

#[test]
#[ignore = "needs pymemcache; run by .ci/run"]
fn pymemcache() {
    for server in Server::start_each() {
        let program = env::var_os("PSP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let mut python = Command::new(program);
        python.arg(script("pymemcache_check.py")).arg(server.port());
        let output = run_program(&mut python, "");
        assert!(output.ends_with("all checks passed\n"), "{output}");
    }
}

#[test]
#[ignore = "needs memjs; run by .ci/run"]
fn memjs() {
    for server in Server::start_each() {
        let mut node = Command::new("node");
        node.arg(script("memjs.cjs")).arg(server.port());
        let output = run_program(&mut node, "");
        assert!(output.ends_with("all checks passed\n"), "{output}");
    }
}

#[test]
#[ignore = "needs nutcracker; run by .ci/run"]
fn twemproxy_in_front_of_two_servers() {
    let servers = [Server::start(), Server::start()];
    let ports = servers.each_ref().map(|server| server.port());
    let proxy = start_twemproxy(ports, Protocol::Memcached);
    let mut client = Connection::open(proxy.address()).unwrap();
    let keys: Vec<String> = (0..200).map(|index| format!("key{index}")).collect();
    for key in &keys {
        client.expect(&format!("set {key} 1 0 5|value"), "STORED");
    }
    let found = client.list(&format!("get {}", keys.join(" ")));
    assert_eq!(found.iter().filter(|line| line.starts_with("VALUE ")).count(), 200);
    client.expect("delete key0", "DELETED");
    client.expect("get key0", "END");
    client.expect("set n 0 0 1|1", "STORED");
    client.expect("incr n 41", "42");
    client.expect("append n 0 0 1|0", "STORED");
    client.expect("get n", "VALUE n 0 3|420|END");
    client.expect("touch n 100", "TOUCHED");
    for server in &servers {
        let items = server.connect().stat("stats", "curr_items");
        assert!((20..180).contains(&items), "{items} of 200 items on one server");
    }
}
