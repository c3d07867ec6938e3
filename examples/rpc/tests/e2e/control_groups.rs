//! In a control group with little memory the kernel does not kill the server when clients send parts of requests.

use std::net::SocketAddr;

use psp_harness::{DEADLINE, survives_unfinished};
use psp_rpc_client::Client;

use crate::common::ask;

/// A frame's length in the form of protobuf, and so many bytes of the frame.
fn part(announced: usize, sent: usize) -> Vec<u8> {
    let byte = |shift: usize| (announced >> shift & 0x7f) as u8;
    let prefix = [byte(0) | 0x80, byte(7) | 0x80, byte(14)];
    [&prefix[..], &vec![b'x'; sent]].concat()
}

#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn unfinished_messages_kill_nothing() {
    let parts = [(part(990_000, 980_000), 1000), (part(60_000, 58_000), 8000)];
    let ask = |address: SocketAddr| {
        let mut client = Client::connect(address).expect("the server accepts");
        client.set_timeout(DEADLINE).unwrap();
        ask(&mut client, "Echo", vec![7; 10]);
    };
    survives_unfinished(env!("CARGO_BIN_EXE_psp-rpc"), &["--port", "0"], &parts, ask);
}
