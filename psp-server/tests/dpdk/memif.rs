//! Both ends in one process, over shared memory.

use std::str::FromStr;
use std::sync::atomic::Ordering;

use psp_server::protocols::packet::{Checksums, End, Flow, MacAddr, arp};
use psp_server::protocols::psp_header::Kind;
use psp_server::{Config, Policy, PreemptPolicy, Topology};

use crate::common::until;
use crate::rig::{CLIENT, LONG, SERVER, SHORT, TestClient, TestServer, Wire, ask, spin, turn};

fn config(topology: Topology) -> Config {
    Config::default().topology(topology).workers(2)
}

fn bytes(count: u32) -> Vec<u8> {
    [&[ask::BYTES][..], &count.to_be_bytes()].concat()
}

/// The flow from the client to the server.
fn flow(client: &TestClient) -> Flow {
    let end = |mac: MacAddr, address: std::net::SocketAddrV4| End { mac, ip: *address.ip(), port: address.port() };
    Flow {
        source: end(client.port.interface().mac, CLIENT),
        destination: end(client.port.server_mac().unwrap(), SERVER),
    }
}

fn frame(flow: Flow, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; psp_server::protocols::packet::udp::HEADERS_LEN];
    frame.extend_from_slice(payload);
    flow.write_headers(&mut frame, Checksums::Software);
    frame
}

#[test]
fn every_policy_answers_every_request_in_every_topology() {
    let _turn = turn();
    for name in Policy::NAMES {
        let policy = Policy::from_str(name).unwrap();
        for topology in [Topology::Inline, Topology::Dedicated] {
            if policy.needs_preemption() && topology == Topology::Inline {
                continue;
            }
            let wire = Wire::new();
            let server = TestServer::start(wire.server(), policy.clone(), config(topology));
            let mut client = wire.client();
            client.exchange(500);
            // A worker counts what it has sent.
            until("the end of all requests", || server.counts() == (500, 0, 500));
            assert_eq!(client.port.mbufs_in_use(), 0);
            server.stop();
        }
    }
}

#[test]
fn requests_yield_by_contexts_and_by_threads() {
    let _turn = turn();
    for preempt in [PreemptPolicy::Cooperative, PreemptPolicy::KernelThread] {
        let wire = Wire::new();
        let config = config(Topology::Dedicated).preempt(preempt).contexts_per_worker(4).workers(1);
        let policy = Policy::sq().quantum_us(50);
        let server = TestServer::start(wire.server(), policy, config);
        let mut client = wire.client();
        client.exchange(200);
        // The worker has requests that yield, and requests that are answered meanwhile.
        let long = client.send(LONG, &spin(20_000_000));
        client.exchange_beside(long);
        let snapshot = server.handle.snapshot();
        let honoured: u64 = snapshot.types.iter().map(|ty| ty.turns.preemptions_honoured).sum();
        assert!(honoured > 0, "{preempt}");
        server.stop();
    }
}

#[test]
fn stations_and_echoes_are_answered() {
    let _turn = turn();
    let wire = Wire::new();
    let server = TestServer::start(wire.server(), Policy::darc(), config(Topology::Inline));
    let mut client = wire.client();
    let asked = server.handle.snapshot().net.packets.arp_answered;
    assert!(asked > 0, "the client knows the server");
    let request = arp::request(&client.port.interface(), *SERVER.ip());
    client.send_frame(&request);
    // An echo is a datagram with another protocol in its header.
    let mut echo = frame(flow(&client), &[0; 32]);
    echo[23] = 1;
    let seal = |frame: &mut Vec<u8>, at: usize, from: std::ops::Range<usize>| {
        frame[at..at + 2].fill(0);
        let sum = psp_server::protocols::packet::checksum::Sum::default();
        let checksum = sum.bytes(&frame[from]).checksum();
        frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    };
    seal(&mut echo, 24, 14..34);
    echo[34..42].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34, 0, 7]);
    let end = echo.len();
    seal(&mut echo, 36, 34..end);
    client.send_frame(&echo);
    let (mut station, mut echoed) = (None, None);
    until("both replies", || {
        client.port.receive_frames(|frame| match frame[13] {
            6 => station = Some(frame.to_vec()),
            _ => echoed = Some(frame.to_vec()),
        });
        station.is_some() && echoed.is_some()
    });
    let (station, echoed) = (station.unwrap(), echoed.unwrap());
    assert_eq!(station[20..22], [0, 2]);
    assert_eq!(station[28..32], SERVER.ip().octets());
    assert_eq!(echoed[34..36], [0, 0]);
    assert_eq!(echoed[38..], echo[38..]);
    assert_eq!(server.handle.snapshot().net.packets.echoes_answered, 1);
    server.stop();
}

#[test]
fn a_reply_has_the_length_of_a_frame_at_most() {
    let _turn = turn();
    for topology in [Topology::Inline, Topology::Dedicated] {
        let wire = Wire::new();
        let server = TestServer::start(wire.server(), Policy::c_fcfs(), config(topology));
        let mut client = wire.client();
        // 1500 - 20 - 8 - 16.
        let longest = 1456;
        let (kind, reply) = client.ask(SHORT, &bytes(longest));
        assert_eq!((kind, reply.len()), (Kind::Reply, longest as usize));
        // A long request does not shorten it.
        let mut request = bytes(longest);
        request.resize(longest as usize, 0);
        let (kind, reply) = client.ask(SHORT, &request);
        assert_eq!((kind, reply.len()), (Kind::Reply, longest as usize));
        for len in [longest + 1, 100_000] {
            let refused = client.ask(SHORT, &bytes(len));
            assert_eq!(refused, (Kind::Error, b"reply too large".to_vec()));
        }
        let workers = server.handle.snapshot().workers;
        let too_large: u64 = workers.iter().map(|worker| worker.replies_too_large).sum();
        assert_eq!(too_large, 2);
        server.stop();
    }
}

#[test]
fn a_panic_costs_its_own_request_and_silence_no_mbuf() {
    let _turn = turn();
    let wire = Wire::new();
    let server = TestServer::start(wire.server(), Policy::c_fcfs(), config(Topology::Dedicated));
    let mut client = wire.client();
    for _ in 0..100 {
        client.send(SHORT, &[ask::SILENCE]);
    }
    let refused = client.ask(LONG, &[ask::PANIC]);
    assert_eq!(refused, (Kind::Error, b"handler failed".to_vec()));
    let (kind, _) = client.ask(SHORT, &[ask::ECHO]);
    assert_eq!(kind, Kind::Reply);
    server.stop();
}

#[test]
fn overload_is_dropped_and_counted() {
    let _turn = turn();
    let wire = Wire::new();
    let config = config(Topology::Dedicated).queue_capacity(4);
    let server = TestServer::start(wire.server(), Policy::darc(), config);
    let mut client = wire.client();
    // At least one request waits at the gate; the queue holds four more.
    for _ in 0..200 {
        client.send(LONG, &[ask::WAIT]);
    }
    let net = || server.handle.snapshot().net;
    until("all requests are in or dropped", || {
        let (arrived, _, _) = server.counts();
        arrived + net().packets.overflows == 200
    });
    // Short requests still have their own queue and worker.
    for _ in 0..50 {
        assert_eq!(client.ask(SHORT, &[ask::ECHO]).0, Kind::Reply);
    }
    until("a request at the gate", || server.gate.waiting.load(Ordering::SeqCst) > 0);
    server.gate.open();
    let mut replies = 0;
    until("every request is answered or was rejected", || {
        client.receive(|_, _| replies += 1);
        let (arrived, rejected, completed) = server.counts();
        arrived == rejected + completed && replies + 50 == completed
    });
    let (_, rejected, _) = server.counts();
    assert!(rejected + net().packets.overflows >= 190, "{rejected}");
    server.stop();
}

#[test]
fn frames_for_others_and_malformed_ones_are_counted_by_reason() {
    let _turn = turn();
    let wire = Wire::new();
    let server = TestServer::start(wire.server(), Policy::c_fcfs(), config(Topology::Inline));
    let mut client = wire.client();
    let right = frame(flow(&client), b"no header of psp");
    let with = |at: usize, byte: u8| {
        let mut frame = right.clone();
        frame[at] = byte;
        frame
    };
    // The device has a random address.
    let other_mac = with(5, right[5] ^ 1);
    let other_port = {
        let mut flow = flow(&client);
        flow.destination.port = 1;
        frame(flow, b"?")
    };
    let cases = [
        ("wrong_length", right[..50].to_vec()),
        ("other_mac", other_mac),
        ("multicast", with(0, 0xff)),
        ("vlan", with(12, 0x81)),
        ("other_ether_type", with(12, 0x86)),
        ("bad_checksum", with(50, 0)),
        ("no_such_port", other_port),
    ];
    for (_, frame) in &cases {
        client.send_frame(frame);
    }
    client.send_frame(&right);
    until("the malformed request", || server.handle.snapshot().net.malformed == 1);
    for (reason, _) in &cases {
        assert_eq!(server.dropped(reason), 1, "{reason}");
    }
    assert_eq!(client.ask(SHORT, &[ask::ECHO]).0, Kind::Reply);
    server.stop();
}

#[test]
fn clients_come_and_go() {
    let _turn = turn();
    let wire = Wire::new();
    let server = TestServer::start(wire.server(), Policy::darc(), config(Topology::Dedicated));
    for _ in 0..20 {
        let mut client = wire.client();
        client.exchange(50);
    }
    server.stop();
}

#[test]
fn a_server_goes_while_its_client_polls() {
    let _turn = turn();
    for _ in 0..10 {
        let wire = Wire::new();
        let server = TestServer::start(wire.server(), Policy::c_fcfs(), config(Topology::Inline));
        let mut client = wire.client();
        client.exchange(50);
        client.polls_to_the_end_of(server);
    }
}
