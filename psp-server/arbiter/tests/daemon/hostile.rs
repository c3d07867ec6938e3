//! Clients that send nonsense, too much, or never read: they harm only themselves.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use psp_arbiter::arbitration::Settings;
use psp_arbiter::protocol::{MESSAGE_BYTES, Refusal, ToArbiter, ToServer};
use psp_arbiter::{CoreId, ThreadId};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use crate::rig::{Client, Rig, registration};

fn raw(socket: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let raw = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&raw, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    raw
}

/// Sends; returns whether the arbiter still listens.
fn put(raw: &OwnedFd, bytes: &[u8]) -> bool {
    send(raw, bytes, SendFlags::NOSIGNAL).is_ok()
}

/// Reads up to the refusal with which the arbiter ends the connection, if it says one.
fn refusal(raw: &OwnedFd) -> Option<Refusal> {
    let mut bytes = [0; MESSAGE_BYTES];
    loop {
        match recv(raw, &mut bytes[..], RecvFlags::empty()) {
            // Before what the arbiter said: that it went without having read everything.
            Err(Errno::CONNRESET) => continue,
            Ok((_, 0)) | Err(_) => return None,
            Ok(_) => {}
        }
        if let Some(ToServer::Refused(refusal)) = ToServer::decode(&bytes) {
            return Some(refusal);
        }
    }
}

/// Whether the arbiter still does its work.
fn still_works(rig: &Rig) {
    let mut client = Client::connect(&rig.socket(), "honest", 0, 1);
    client.arbiter.set_wanted(1);
    client.granted();
    drop(client);
    rig.wait_for("all cores back", |status| status.unmanaged == status.cores);
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let rig = Rig::start(4, Settings::default());
    let register = ToArbiter::Register(registration("hostile", 0)).encode();
    let thread = ThreadId::new(1).unwrap();
    let core = CoreId::new(1).unwrap();
    let offer = ToArbiter::Offer(thread).encode();
    for (packets, expected) in [
        (vec![&b"hello"[..]], Refusal::Malformed),
        (vec![&[0; 64]], Refusal::Malformed),
        (vec![&[255; 200]], Refusal::Malformed),
        (vec![&register, &register], Refusal::Registered),
        (vec![&ToArbiter::Want(3).encode()], Refusal::NotRegistered),
        (vec![&register, &offer], Refusal::Thread),
        (vec![&register, &ToArbiter::Hold(thread, core).encode()], Refusal::Thread),
    ] {
        let raw = raw(&rig.socket());
        for packet in packets {
            put(&raw, packet);
        }
        assert_eq!(refusal(&raw), Some(expected));
    }
    still_works(&rig);
}

#[test]
fn random_packets_neither_stall_nor_end_the_arbiter() {
    let rig = Rig::start(4, Settings::default());
    let this = ThreadId::current();
    let core = (0..6_usize).prop_map(|number| CoreId::new(number).unwrap());
    let packet = prop_oneof![
        2 => proptest::collection::vec(any::<u8>(), 1..150),
        6 => (1..7_u16, any::<u32>(), any::<u32>()).prop_map(|(kind, a, b)| {
            let mut packet = ToArbiter::Status.encode();
            packet[0..2].copy_from_slice(&kind.to_ne_bytes());
            packet[4..8].copy_from_slice(&a.to_ne_bytes());
            packet[8..12].copy_from_slice(&b.to_ne_bytes());
            packet.to_vec()
        }),
        3 => Just(ToArbiter::Offer(this).encode().to_vec()),
        3 => core.prop_map(move |core| ToArbiter::Hold(this, core).encode().to_vec()),
        3 => (0..9_usize).prop_map(|cores| ToArbiter::Want(cores).encode().to_vec()),
        1 => Just(ToArbiter::Withdraw(this).encode().to_vec()),
        1 => Just(ToArbiter::Status.encode().to_vec()),
    ];
    let packets = (any::<bool>(), proptest::collection::vec(packet, 0..40));
    let mut runner = TestRunner::new(Config::with_cases(300));
    runner
        .run(&packets, |(register, packets)| {
            let raw = raw(&rig.socket());
            if register {
                put(&raw, &ToArbiter::Register(registration("random", 0)).encode());
            }
            let _ = packets.iter().all(|packet| put(&raw, packet));
            Ok(())
        })
        .unwrap();
    rig.wait_for("all gone", |status| status.servers.is_empty());
    still_works(&rig);
}

#[test]
fn a_flood_is_cut_off() {
    let rig = Rig::start(4, Settings::default());
    let raw = raw(&rig.socket());
    put(&raw, &ToArbiter::Register(registration("flood", 7)).encode());
    let want = ToArbiter::Want(1).encode();
    let give_up = Instant::now() + Duration::from_secs(60);
    while put(&raw, &want) {
        assert!(Instant::now() < give_up, "the arbiter takes everything");
    }
    assert_eq!(refusal(&raw), Some(Refusal::Rate));
    still_works(&rig);
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let rig = Rig::start(4, Settings::default());
    let raw = raw(&rig.socket());
    put(&raw, &ToArbiter::Register(registration("deaf", 7)).encode());
    put(&raw, &ToArbiter::Want(1).encode());
    let offer = ToArbiter::Offer(ThreadId::current()).encode();
    let give_up = Instant::now() + Duration::from_secs(60);
    // Each offer is answered by a grant, until the socket is full. It sends no faster than it may.
    while put(&raw, &offer) {
        assert!(Instant::now() < give_up, "the arbiter keeps a client that does not read");
        std::thread::sleep(Duration::from_micros(1500));
    }
    rig.wait_for("it is gone", |status| status.servers.is_empty());
    still_works(&rig);
}

#[test]
fn a_client_that_says_nothing_is_cut_off() {
    let rig = Rig::start(4, Settings::default());
    let silent = raw(&rig.socket());
    assert_eq!(refusal(&silent), Some(Refusal::Late));
}

#[test]
fn connections_are_bounded() {
    let rig = Rig::start(4, Settings::default());
    let crowd: Vec<OwnedFd> = (0..128)
        .map(|_| {
            let raw = raw(&rig.socket());
            put(&raw, &ToArbiter::Register(registration("crowd", 7)).encode());
            raw
        })
        .collect();
    let many = crowd.len();
    // Users other than root reach their own bound first.
    let refused = |refusal| matches!(refusal, Some(Refusal::Connections | Refusal::ConnectionsOfUser));
    assert!(refused(refusal(&raw(&rig.socket()))), "{many} connections, and one more");
    drop(crowd);
    let give_up = Instant::now() + Duration::from_secs(60);
    while psp_arbiter::status::ask(&rig.socket()).is_err() {
        assert!(Instant::now() < give_up, "the crowd stays");
    }
    still_works(&rig);
}
