//! In a control group with little memory the kernel does not kill the server when clients send parts of requests.

use std::net::SocketAddr;

use psp_harness::{MemoryGroup, NOT_PSP, ServerProcess, Start, skip, survives_unfinished};

use crate::common::{Connection, Server};

fn start(group: &MemoryGroup) -> ServerProcess {
    ServerProcess::start(|_| {
        let mut command = group.command(env!("CARGO_BIN_EXE_psp-memcached"));
        command.args(["-l", "127.0.0.1", "-p", "0", "-c", "10000"]);
        Start { command, port: None }
    })
}

#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn unfinished_sets_kill_nothing() {
    if !Server::is_psp() {
        return skip(NOT_PSP);
    }
    let part = |announced: usize, sent: usize| {
        let head = format!("set k 0 0 {announced}\r\n");
        [head.as_bytes(), &vec![b'x'; sent]].concat()
    };
    let parts = [(part(990_000, 980_000), 1000), (part(60_000, 58_000), 8000)];
    let ask = |address: SocketAddr| {
        let mut client = Connection::open(address).expect("the server accepts");
        client.expect("mn", "MN");
    };
    survives_unfinished(start, &parts, ask);
}
