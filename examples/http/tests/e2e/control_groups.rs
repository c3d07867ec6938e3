//! In a control group with little memory the kernel does not kill the server when clients send parts of requests.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;

use psp_harness::{connect, survives_unfinished};

#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn unfinished_bodies_kill_nothing() {
    let part = |announced: usize, sent: usize| {
        let head = format!("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {announced}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; sent]].concat()
    };
    let parts = [(part(990_000, 980_000), 1000), (part(60_000, 58_000), 8000)];
    let ask = |address: SocketAddr| {
        let mut client = connect(address).expect("the server accepts");
        let request = b"GET /fast HTTP/1.1\r\nHost: x\r\n\r\n";
        client.get_mut().write_all(request).expect("it reads");
        let mut line = String::new();
        client.read_line(&mut line).expect("a response");
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    };
    survives_unfinished(env!("CARGO_BIN_EXE_psp-http"), &["--port", "0"], &parts, ask);
}
