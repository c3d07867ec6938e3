//! Many long requests: short requests are served beside them, and the server refuses requests that
//! it cannot queue.
//!
//! memcached has no typed queues, so these tests apply to psp-memcached only.

use crate::common::{Connection, Server};

const CLIENTS: usize = 40;
const CONFIG: &str = "[server]\nqueue_capacity = 2\nbackpressure_ms = 0\n";

fn long_requests_are_refused_and_gets_are_not(policy: &str, topology: &str) {
    psp_harness::only_psp!();
    let flags = ["--policy", policy, "--topology", topology];
    let server = Server::start_psp(&["-t", "2"], &flags, CONFIG);
    let shape = format!("{policy}, {topology}");
    let mut witness = server.connect();
    for index in 0..20_000 {
        witness.send(format!("set key{index} 0 0 5 noreply\r\n{index:05}\r\n"));
    }
    witness.expect("mn", "MN");
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("lru_crawler metadump all\r\n");
    }
    for _ in 0..20 {
        witness.expect("get key7", "VALUE key7 0 5|00007|END");
    }
    let mut done = 0;
    for client in &mut clients {
        let first = client.line();
        if first.starts_with("SERVER_ERROR busy") {
            continue;
        }
        assert!(first.starts_with("key="), "{shape}: {first}");
        let rest = std::iter::from_fn(|| Some(client.line())).take_while(|line| line != "END");
        assert_eq!(rest.count(), 19_999, "{shape}");
        done += 1;
    }
    assert!((2..CLIENTS).contains(&done), "{shape}: the server served {done}");
    assert_eq!(witness.stat("stats psp", "type:scan:rejections"), (CLIENTS - done) as u64, "{shape}");
}

#[test]
fn darc_inline() {
    long_requests_are_refused_and_gets_are_not("darc", "inline");
}

#[test]
fn darc_dedicated() {
    long_requests_are_refused_and_gets_are_not("darc", "dedicated");
}

#[test]
fn darc_distributed() {
    long_requests_are_refused_and_gets_are_not("darc-distributed", "distributed");
}

#[test]
fn fixed_priority_dedicated() {
    long_requests_are_refused_and_gets_are_not("fixed-priority", "dedicated");
}
