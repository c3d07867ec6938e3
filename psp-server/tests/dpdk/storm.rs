//! No mbuf is lost under overload, malformed frames, requests without replies, panics, and clients that come
//! and go.

use psp_server::{Config, Policy, Topology};

use crate::common::until;
use crate::rig::{LONG, SHORT, TestClient, TestServer, Wire, ask, turn};

/// Frames that a client sends before the next client takes its place.
const FRAMES_PER_CLIENT: u64 = 1_000_000;

/// Sends `count` frames as fast as it can, one in eight malformed, and now and then drops replies unread.
fn pour(client: &mut TestClient, count: u64, seed: &mut u64) {
    for _ in 0..count {
        // Xorshift: any mixture will do.
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let len = 1 + (*seed >> 32) as usize % 600;
        match *seed % 16 {
            0 | 1 => {
                let mut frame = vec![*seed as u8; len];
                let mac = client.port.server_mac().unwrap();
                let start = mac.0.len().min(len);
                frame[..start].copy_from_slice(&mac.0[..start]);
                client.port.send_frame(&frame);
            }
            2 => client.offer(SHORT, &vec![ask::SILENCE; len]),
            3 => client.offer(LONG, &[&[ask::SPIN][..], &2000_u32.to_be_bytes()].concat()),
            4 => client.offer(SHORT, &[&[ask::BYTES][..], &4000_u32.to_be_bytes()].concat()),
            5 => client.offer(9, &vec![ask::ECHO; len]),
            _ => client.offer(SHORT, &vec![ask::ECHO; len]),
        }
        if (*seed).is_multiple_of(32) {
            client.receive(|_, _| {});
        }
    }
    client.port.flush();
}

/// Sends frames to a server with typed queues of this capacity, until it has received so many requests.
fn storm(frames: u64, topology: Topology, policy: Policy, queue_capacity: usize) {
    let _turn = turn();
    let wire = Wire::new();
    let config = Config::default().topology(topology).workers(2).queue_capacity(queue_capacity);
    let server = TestServer::start(wire.server(), policy, config);
    let received = || server.handle.snapshot().net.packets.frames;
    let requests = || server.handle.snapshot().net.datagrams_received;
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let per_client = FRAMES_PER_CLIENT.min(frames / 4);
    while requests() < frames {
        let mut client = wire.client();
        let before = received();
        pour(&mut client, per_client, &mut seed);
        until("something that comes", || received() > before);
        // The client's last replies are on their way, or never taken.
    }
    let mut client = wire.client();
    let settled = || {
        let (arrived, rejected, completed) = server.counts();
        arrived == rejected + completed
    };
    until("every request has ended", settled);
    // The server still serves.
    let (kind, reply) = client.ask(SHORT, &[ask::ECHO, 1, 2, 3]);
    assert_eq!(
        (kind, &reply[..]),
        (psp_server::protocols::psp_header::Kind::Reply, &[ask::ECHO, 1, 2, 3][..])
    );
    let (_, rejected, completed) = server.counts();
    let packets = server.handle.snapshot().net.packets;
    eprintln!("{completed} requests run, {rejected} rejected; {packets:?}");
    assert!(rejected + packets.overflows > 0, "there was no overload");
    assert!(packets.dropped.iter().any(|drop| drop.frames > 0));
    drop(client);
    server.stop();
}

#[test]
fn a_short_storm_costs_no_mbuf() {
    storm(100_000, Topology::Dedicated, Policy::darc(), 32);
    storm(100_000, Topology::Inline, Policy::darc(), 32);
    // A burst of frames is longer than a queue.
    storm(50_000, Topology::Distributed, Policy::stealing(), 8);
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_requests_cost_no_mbuf() {
    storm(5_000_000, Topology::Dedicated, Policy::darc(), 32);
    storm(5_000_000, Topology::Inline, Policy::darc(), 32);
    storm(5_000_000, Topology::Distributed, Policy::stealing(), 8);
}
