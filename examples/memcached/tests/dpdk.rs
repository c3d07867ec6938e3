//! Servers that receive datagrams through a DPDK port: on the net thread beside TCP through a kernel socket, and on
//! workers.

#[path = "e2e/common/mod.rs"]
mod common;

use std::net::SocketAddr;

use common::{Datagrams, Server};
use psp_harness::{TAP_FLAGS, TAP_SERVER, Wire, in_own_network, raise_tap};
use psp_memcached::config::Config;
use psp_memcached::startup;
use psp_program::{Transport, TransportConfig};
use psp_protocols::memcached::udp::{HEADER_LEN, Header};
use psp_server::{Policy, Topology};

/// The server's UDP port without `-U`.
const UDP_PORT: u16 = 11211;
const WORKERS: usize = 2;

#[test]
fn workers_answer_requests_of_their_own_queues() {
    let wire = Wire::new(WORKERS);
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let memcached = startup::build(Config {
            port: 0,
            udp_port: UDP_PORT,
            transport: TransportConfig { name: Transport::Dpdk, dpdk: wire.server(UDP_PORT) },
            policy,
            server: psp_server::Config::default().topology(Topology::Distributed).workers(WORKERS),
            ..Config::default()
        });
        let memcached = memcached.unwrap();
        let running = memcached.server.spawn().unwrap();
        let mut client = wire.connect(UDP_PORT);
        let mut ask = |queue: usize, id: u16, request: &str| {
            let datagram = [&Header::request(id).encode()[..], request.as_bytes()].concat();
            let reply = client.ask(queue, &datagram);
            assert_eq!(Header::decode(&reply).unwrap(), Header::request(id));
            String::from_utf8(reply[HEADER_LEN..].to_vec()).unwrap()
        };
        // Of the type `bulk`, which may be long.
        let bulk = format!("get{}\r\n", " none".repeat(257));
        for id in 0..100 {
            let queue = usize::from(id) % WORKERS;
            let value = format!("value-{id}");
            let set = format!("set key 0 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(ask(queue, id, &set), "STORED\r\n");
            let got = format!("VALUE key 0 {}\r\n{value}\r\nEND\r\n", value.len());
            assert_eq!(ask(1 - queue, id, "get key\r\n"), got);
            assert_eq!(ask(queue, id, &bulk), "END\r\n");
        }
        let workers = running.handle().snapshot().workers;
        let received = workers.iter().map(|worker| worker.datagrams_received);
        assert_eq!(received.collect::<Vec<_>>(), [150, 150]);
        drop(client);
        running.shut_down();
        assert_eq!(running.join().unwrap().abandoned, 0);
    }
}

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
        assert!(refused.starts_with("SERVER_ERROR reply is larger than the limit of"), "{refused}");
    });
}
