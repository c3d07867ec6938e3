//! One server that receives datagrams through a DPDK port and TCP through a kernel socket.

#[path = "e2e/common/mod.rs"]
mod common;

use std::net::SocketAddr;

use common::{Datagrams, Server};
use psp_harness::{TAP_FLAGS, TAP_SERVER, in_own_network, raise_tap};

/// The server's UDP port without `-U`.
const UDP_PORT: u16 = 11211;

#[test]
fn datagrams_read_items_that_streams_store() {
    in_own_network("datagrams_read_items_that_streams_store", || {
        let server = Server::start_psp(&[], &TAP_FLAGS, "");
        raise_tap();
        let mut stream = server.connect();
        stream.expect("set a 5 0 3|abc", "STORED");
        let datagrams = Datagrams::open(SocketAddr::from((TAP_SERVER, UDP_PORT)));
        for (id, request, reply) in [
            (7, "get a|", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
            (0xffff, "get nosuch|", "END\r\n"),
            (0, "mg a v|", "VA 3\r\nabc\r\n"),
            (8, "set b 1 0 2|xy|", "STORED\r\n"),
        ] {
            assert_eq!(datagrams.ask(id, request), reply, "{request}");
        }
        stream.expect("get b", "VALUE b 1 2|xy|END");
        // A reply must fit into one frame.
        let value = "x".repeat(1350);
        stream.expect(&format!("set fits 0 0 1350|{value}"), "STORED");
        let reply = datagrams.ask(9, "get fits|");
        assert_eq!(reply, format!("VALUE fits 0 1350\r\n{value}\r\nEND\r\n"));
        stream.expect(&format!("set long 0 0 1400|{}", "x".repeat(1400)), "STORED");
        let refused = datagrams.ask(10, "get long|");
        assert!(
            refused.starts_with("SERVER_ERROR reply is larger than the limit of"),
            "{refused}"
        );
    });
}
