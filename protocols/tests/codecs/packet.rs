//! Frames: golden bytes, a frame for each reason to drop it, and properties.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use psp_protocols::packet::arp::{self, Arp, Neighbour};
use psp_protocols::packet::checksum::Sum;
use psp_protocols::packet::udp::{self, HEADERS_LEN};
use psp_protocols::packet::{Checksums, Datagram, DropReason, End, Flow, Frame, Interface, MacAddr, icmp};

const SERVER: Interface = Interface {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    ip: Ipv4Addr::new(10, 78, 0, 1),
    port: 9000,
};
const CLIENT: Interface = Interface {
    mac: MacAddr([2, 0, 0, 0, 0, 0xaa]),
    ip: Ipv4Addr::new(10, 78, 0, 2),
    port: 40_000,
};
const TO_SERVER: Flow = Flow { source: end(CLIENT), destination: end(SERVER) };

const UDP_REQUEST: &str = "02 00 00 00 00 01 02 00 00 00 00 aa 08 00 45 00
    00 21 00 00 40 00 40 11 26 2e 0a 4e 00 02 0a 4e
    00 01 9c 40 23 28 00 0d 2b fc 70 69 6e 67 21";
const UDP_REPLY: &str = "02 00 00 00 00 aa 02 00 00 00 00 01 08 00 45 00
    00 26 00 00 40 00 40 11 26 29 0a 4e 00 01 0a 4e
    00 02 23 28 9c 40 00 12 41 f5 70 6f 6e 67 2c 20
    70 6f 6e 67";
const ECHO_REQUEST: &str = "02 00 00 00 00 01 02 00 00 00 00 aa 08 00 45 00
    00 23 00 00 40 00 40 01 26 3c 0a 4e 00 02 0a 4e
    00 01 08 00 54 97 12 34 00 07 61 62 63 64 65 66 67";
const ECHO_REPLY: &str = "02 00 00 00 00 aa 02 00 00 00 00 01 08 00 45 00
    00 23 00 00 40 00 40 01 26 3c 0a 4e 00 01 0a 4e
    00 02 00 00 5c 97 12 34 00 07 61 62 63 64 65 66 67";
const ARP_REQUEST: &str = "ff ff ff ff ff ff 02 00 00 00 00 aa 08 06 00 01
    08 00 06 04 00 01 02 00 00 00 00 aa 0a 4e 00 02
    00 00 00 00 00 00 0a 4e 00 01";
const ARP_REPLY: &str = "02 00 00 00 00 aa 02 00 00 00 00 01 08 06 00 01
    08 00 06 04 00 02 02 00 00 00 00 01 0a 4e 00 01
    02 00 00 00 00 aa 0a 4e 00 02";

const fn end(Interface { mac, ip, port }: Interface) -> End {
    End { mac, ip, port }
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.split_whitespace();
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn receive(frame: &[u8]) -> Result<Frame, DropReason> {
    SERVER.receive(frame, Checksums::Software)
}

fn frame(flow: Flow, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xee; HEADERS_LEN];
    frame.extend_from_slice(payload);
    flow.write_headers(&mut frame, Checksums::Software);
    frame
}

/// The request with some bytes changed and its checksums corrected.
fn changed(hex: &str, changes: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = bytes(hex);
    for &(at, byte) in changes {
        frame[at] = byte;
    }
    frame[24..26].fill(0);
    let checksum = Sum::default().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    if frame[23] == 17 {
        // 0 means that there is no checksum.
        frame[40..42].fill(0);
    } else {
        frame[36..38].fill(0);
        let checksum = Sum::default().bytes(&frame[34..]).checksum();
        frame[36..38].copy_from_slice(&checksum.to_be_bytes());
    }
    frame
}

#[test]
fn a_datagram_and_its_reply() {
    let request = bytes(UDP_REQUEST);
    assert_eq!(frame(TO_SERVER, b"ping!"), request);
    let Ok(Frame::Datagram(Datagram { flow, payload })) = receive(&request) else {
        panic!("not a datagram");
    };
    assert_eq!((flow, &request[payload]), (TO_SERVER, &b"ping!"[..]));
    assert_eq!(frame(flow.reversed(), b"pong, pong"), bytes(UDP_REPLY));
}

#[test]
fn an_echo_in_its_own_frame() {
    let mut frame = bytes(ECHO_REQUEST);
    // Padding is not echoed.
    frame.extend_from_slice(&[0x55; 11]);
    let Ok(Frame::Echo(echo)) = receive(&frame) else {
        panic!("not an echo");
    };
    let len = icmp::answer(&mut frame, &SERVER, &echo);
    assert_eq!(frame[..len], bytes(ECHO_REPLY));
}

#[test]
fn an_arp_request_in_its_own_frame() {
    let asker = Neighbour { ip: CLIENT.ip, mac: CLIENT.mac };
    let mut frame = bytes(ARP_REQUEST);
    assert_eq!(arp::request(&CLIENT, SERVER.ip)[..], frame);
    frame.resize(60, 0);
    assert_eq!(receive(&frame), Ok(Frame::Arp(Arp::Request(asker))));
    let len = arp::answer(&mut frame, &SERVER, asker);
    assert_eq!(frame[..len], bytes(ARP_REPLY));
    let learnt = Neighbour { ip: SERVER.ip, mac: SERVER.mac };
    let reply = CLIENT.receive(&frame, Checksums::Software);
    assert_eq!(reply, Ok(Frame::Arp(Arp::Reply(learnt))));
}

/// Frames that are dropped, for each reason.
fn dropped() -> Vec<(DropReason, Vec<u8>)> {
    use DropReason::*;
    let udp = |changes: &[(usize, u8)]| changed(UDP_REQUEST, changes);
    let echo = |changes: &[(usize, u8)]| changed(ECHO_REQUEST, changes);
    let arp = |at: usize, byte: u8| {
        let mut frame = bytes(ARP_REQUEST);
        frame[at] = byte;
        frame
    };
    let broken = |hex, at: usize| {
        let mut frame = bytes(hex);
        frame[at] ^= 0x10;
        frame
    };
    vec![
        (WrongLength, vec![]),
        (WrongLength, bytes(UDP_REQUEST)[..13].to_vec()),
        (WrongLength, bytes(UDP_REQUEST)[..33].to_vec()),
        (WrongLength, bytes(UDP_REQUEST)[..46].to_vec()),
        (WrongLength, udp(&[(17, 19)])),
        (WrongLength, udp(&[(17, 27)])),
        (WrongLength, udp(&[(17, 34)])),
        (WrongLength, udp(&[(39, 12)])),
        (WrongLength, udp(&[(39, 14)])),
        (WrongLength, echo(&[(17, 27)])),
        (WrongLength, bytes(ARP_REQUEST)[..41].to_vec()),
        (OtherMac, udp(&[(5, 2)])),
        (Multicast, udp(&[(0, 3)])),
        (Multicast, udp(&[(6, 3)])),
        (Multicast, udp(&[0, 1, 2, 3, 4, 5].map(|at| (at, 0xff)))),
        (Vlan, udp(&[(12, 0x81)])),
        (Vlan, udp(&[(12, 0x88), (13, 0xa8)])),
        (OtherEtherType, udp(&[(12, 0x86), (13, 0xdd)])),
        (OtherArp, arp(15, 2)),
        (OtherArp, arp(18, 8)),
        (OtherArp, arp(21, 3)),
        (OtherArp, arp(41, 3)),
        (BadSource, arp(22, 3)),
        (Ipv4Header, udp(&[(14, 0x65)])),
        (Ipv4Header, udp(&[(14, 0x46)])),
        (Fragment, udp(&[(20, 0x20)])),
        (Fragment, udp(&[(20, 0), (21, 1)])),
        (OtherIp, udp(&[(33, 9)])),
        (OtherIp, udp(&[(30, 224)])),
        (BadSource, udp(&[(26, 224)])),
        (BadSource, udp(&[(26, 127)])),
        (BadSource, udp(&[(26, 0), (27, 0), (28, 0), (29, 0)])),
        (BadSource, udp(&[(29, 1)])),
        (BadSource, udp(&[(34, 0), (35, 0)])),
        (BadChecksum, broken(UDP_REQUEST, 15)),
        (BadChecksum, broken(UDP_REQUEST, 46)),
        (BadChecksum, broken(ECHO_REQUEST, 48)),
        (NotUdp, udp(&[(23, 6)])),
        (NotUdp, udp(&[(17, 20), (23, 6)])),
        (OtherIcmp, echo(&[(34, 0)])),
        (OtherIcmp, echo(&[(35, 1)])),
        (NoSuchPort, udp(&[(37, 0x29)])),
    ]
}

#[test]
fn dropped_frames_have_their_reason() {
    let cases = dropped();
    for (index, (reason, frame)) in cases.iter().enumerate() {
        assert_eq!(receive(frame), Err(*reason), "case {index}");
    }
    for reason in DropReason::ALL {
        let covered = cases.iter().any(|(expected, _)| expected == reason);
        assert!(covered, "no case for {reason}");
        assert_eq!(reason.to_string(), reason.name());
    }
}

#[test]
fn payloads_may_be_empty_and_fill_a_frame() {
    let no_data = ECHO_REQUEST.strip_suffix(" 61 62 63 64 65 66 67").expect("the echo's data");
    assert!(matches!(receive(&changed(no_data, &[(17, 28)])), Ok(Frame::Echo(_))));
    assert_eq!(udp::payload_len_max(1500), 1472);
}

#[test]
fn a_datagram_needs_no_checksum() {
    assert!(matches!(receive(&changed(UDP_REQUEST, &[])), Ok(Frame::Datagram(_))));
}

#[test]
fn checksums_verified_by_the_port_are_not_verified_again() {
    let mut frame = bytes(UDP_REQUEST);
    frame[24] ^= 1;
    frame[44] ^= 1;
    assert_eq!(receive(&frame), Err(DropReason::BadChecksum));
    let trusted = SERVER.receive(&frame, Checksums::Port);
    assert!(matches!(trusted, Ok(Frame::Datagram(_))));
}

#[test]
fn a_port_that_computes_checksums_gets_the_sum_of_the_pseudo_header() {
    let mut frame = bytes(UDP_REQUEST);
    TO_SERVER.write_headers(&mut frame, Checksums::Port);
    assert_eq!(frame[24..26], [0, 0]);
    // The port adds the rest of the datagram.
    let datagram = Sum::default().bytes(&frame[34..]).checksum();
    assert_eq!(datagram.to_be_bytes(), bytes(UDP_REQUEST)[40..42]);
}

fn any_end() -> impl Strategy<Value = End> {
    let host = (1_u8..127).prop_filter("replies can be sent to it", |first| *first != 127);
    (any::<[u8; 5]>(), host, any::<[u8; 3]>(), 1_u16..).prop_map(|(mac, first, rest, port)| {
        let [m1, m2, m3, m4, m5] = mac;
        let [b, c, d] = rest;
        End {
            mac: MacAddr([2, m1, m2, m3, m4, m5]),
            ip: Ipv4Addr::new(first, b, c, d),
            port,
        }
    })
}

proptest! {
    #[test]
    fn written_datagrams_with_any_payload_are_received(
        source in any_end(),
        destination in any_end(),
        payload in prop::collection::vec(any::<u8>(), 0..udp::payload_len_max(1500)),
        padding in 0_usize..50,
    ) {
        prop_assume!(source.ip != destination.ip);
        let flow = Flow { source, destination };
        let mut frame = frame(flow, &payload);
        frame.resize(frame.len() + padding, 0xaa);
        let End { mac, ip, port } = destination;
        let received = Interface { mac, ip, port }.receive(&frame, Checksums::Software);
        let at = HEADERS_LEN..HEADERS_LEN + payload.len();
        prop_assert_eq!(Flow::of(&frame), flow);
        prop_assert_eq!(received, Ok(Frame::Datagram(Datagram { flow, payload: at })));
    }

    #[test]
    fn a_flipped_bit_behind_the_ethernet_header_is_detected(
        payload in prop::collection::vec(any::<u8>(), 1..40),
        bit in any::<prop::sample::Index>(),
    ) {
        let right = frame(TO_SERVER, &payload);
        let mut wrong = right.clone();
        let bit = bit.index((right.len() - 14) * 8);
        wrong[14 + bit / 8] ^= 1 << (bit % 8);
        // 0 means that there is no checksum.
        prop_assume!(wrong[40..42] != [0, 0]);
        prop_assert!(receive(&wrong).is_err());
    }

    #[test]
    fn any_frame_is_read_within_its_bounds(
        hex in prop::sample::select(vec![UDP_REQUEST, ECHO_REQUEST, ARP_REQUEST]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in 0_usize..70,
        verified in prop::sample::select(vec![Checksums::Software, Checksums::Port]),
    ) {
        let mut frame = bytes(hex);
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.resize(len, 0);
        match SERVER.receive(&frame, verified) {
            Ok(Frame::Datagram(Datagram { payload, .. })) => {
                prop_assert!(payload.start <= payload.end && payload.end <= frame.len());
            }
            Ok(Frame::Arp(Arp::Request(asker))) => {
                prop_assert_eq!(arp::answer(&mut frame, &SERVER, asker), arp::FRAME_LEN);
            }
            Ok(Frame::Echo(echo)) => {
                prop_assert!(icmp::answer(&mut frame, &SERVER, &echo) <= len);
            }
            Ok(Frame::Arp(Arp::Reply(_))) | Err(_) => {}
        }
    }
}
