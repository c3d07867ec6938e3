//! Protocols with a header in front of a datagram's payload: memcached's.

use std::sync::Arc;

use psp_server::protocols::Sink;
use psp_server::protocols::memcached::MemcachedFraming;
use psp_server::protocols::memcached::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header};
use psp_server::{Config, Policy, Reply, Request, Server, Topology};

use crate::common::until;
use crate::rig::{TestClient, TestServer, Wire, turn};

/// Answers as many bytes as the request asks for.
fn handle(request: Request<'_, ()>, reply: &mut Reply<'_>) {
    let text = std::str::from_utf8(request.payload).unwrap();
    let len: usize = text.split_whitespace().last().unwrap().parse().unwrap();
    reply.put(&vec![b'x'; len]);
}

/// The one datagram that answers a request for `len` bytes. Checks its header, and returns the rest.
fn ask(client: &mut TestClient, request_id: u16, len: usize) -> Vec<u8> {
    let request = format!("get {len}\r\n");
    let header = Header::request(request_id);
    client.send_datagram(&[&header.encode()[..], request.as_bytes()].concat());
    let mut replies = Vec::new();
    until("a reply", || {
        client.port.receive(|datagram| replies.push(datagram.to_vec()));
        !replies.is_empty()
    });
    assert_eq!(replies.len(), 1);
    assert_eq!(Header::decode(&replies[0]), Some(header));
    replies[0].split_off(HEADER_LEN)
}

#[test]
fn a_reply_beyond_one_frame_is_refused_in_its_envelope() {
    let _turn = turn();
    for topology in [Topology::Inline, Topology::Dedicated] {
        let wire = Wire::new();
        let server = Server::builder()
            .listen_dpdk(wire.server())
            .framing(MemcachedFraming::default())
            .policy(Policy::c_fcfs())
            .config(Config::default().topology(topology).workers(2))
            .handler(handle)
            .build()
            .unwrap();
        let server = TestServer::run(server, Arc::default());
        let mut client = wire.client();
        let longest = DATAGRAM_LEN_MAX - HEADER_LEN;
        for (request_id, len) in [(7, 1), (0xffff, longest)] {
            assert_eq!(ask(&mut client, request_id, len), vec![b'x'; len]);
        }
        for (request_id, len) in [(8, longest + 1), (9, 100_000)] {
            assert_eq!(
                ask(&mut client, request_id, len),
                format!("SERVER_ERROR reply is larger than the limit of {longest} bytes\r\n").as_bytes()
            );
        }
        let workers = server.handle.snapshot().workers;
        let too_large: u64 = workers.iter().map(|worker| worker.replies_too_large).sum();
        assert_eq!(too_large, 2);
        server.stop();
    }
}
