//! In a control group with little memory the kernel does not kill the server when clients send parts of requests.

use std::net::SocketAddr;

use psp_harness::{connect, survives_unfinished};
use psp_protocols::psp_header::{Header, Kind};

use crate::program::{receive, send};

#[test]
#[ignore = "needs root, and memory; run by .ci/run"]
fn unfinished_requests_kill_nothing() {
    let header = Header {
        kind: Kind::Request,
        request_type: 0,
        id: 1,
        run_time_ns: 0,
        payload_len: 60_000,
    };
    let part = [&header.encode()[..], &vec![b'x'; 58_000]].concat();
    let ask = |address: SocketAddr| {
        let mut client = connect(address).expect("the server accepts");
        send(&mut client, 0, 7, 1000);
        assert_eq!(receive(&mut client), 7);
    };
    survives_unfinished(env!("CARGO_BIN_EXE_psp-synthetic"), &["--tcp", "--port", "0"], &[(part, 8000)], ask);
}
