//! Datagrams through a port of DPDK, and TCP on a socket of the kernel, by one server.

#[path = "e2e/common/mod.rs"]
mod common;

use std::net::SocketAddr;

use common::{Server, ask};
use psp_harness::{DEADLINE, TAP_FLAGS, TAP_SERVER, in_own_network, raise_tap};
use psp_rpc_client::envelope::Status;
use psp_rpc_client::methods::{Numbers, Total, Work};
use psp_rpc_client::{Client, decode};

#[test]
fn calls_are_answered_through_the_port_and_over_tcp() {
    in_own_network("calls_are_answered_through_the_port_and_over_tcp", || {
        let server = Server::start(&TAP_FLAGS);
        raise_tap();
        let port = server.process.address().port();
        let datagrams = Client::datagrams(SocketAddr::from((TAP_SERVER, port))).unwrap();
        datagrams.set_timeout(DEADLINE).unwrap();
        for mut client in [datagrams, server.connect()] {
            let echo = ask(&mut client, "Echo", b"hello".to_vec());
            assert_eq!(
                (echo.status(), &echo.payload[..]),
                (Status::Ok, &b"hello"[..])
            );
            let values = Numbers {
                values: (1..=100).collect(),
            };
            let total: Total = decode(&ask(&mut client, "Sum", &values)).unwrap();
            assert_eq!(total.value, 5050);
            let spin = ask(&mut client, "Spin", &Work { duration_us: 500 });
            assert_eq!(spin.status(), Status::Ok);
            let unknown = ask(&mut client, "Dance", Vec::new());
            assert_eq!(unknown.status(), Status::Unimplemented);
        }
        assert_eq!(server.stats_of("sum").completions, 2);
    });
}
