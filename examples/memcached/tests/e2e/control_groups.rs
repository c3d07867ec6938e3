//! In a control group with little memory the kernel does not kill the server when clients send parts of requests.

use std::net::SocketAddr;

use psp_harness::survives_unfinished;

use crate::common::Connection;

#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn unfinished_sets_kill_nothing() {
    psp_harness::only_psp!();
    let part = |announced: usize, sent: usize| {
        let head = format!("set k 0 0 {announced}\r\n");
        [head.as_bytes(), &vec![b'x'; sent]].concat()
    };
    let parts = [(part(990_000, 980_000), 1000), (part(60_000, 58_000), 8000)];
    let ask = |address: SocketAddr| {
        let mut client = Connection::open(address).expect("the server accepts");
        client.expect("mn", "MN");
    };
    survives_unfinished(
        env!("CARGO_BIN_EXE_psp-memcached"),
        &["-l", "127.0.0.1", "-p", "0", "-c", "10000"],
        &parts,
        ask,
    );
}
