//! Frames: a received payload is within the bounds of its frame, and the peer can read the reply.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use psp_protocols::packet::arp::{self, Arp};
use psp_protocols::packet::{Checksums, Frame, Interface, MacAddr, icmp};

const INTERFACE: Interface = Interface {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    ip: Ipv4Addr::new(10, 78, 0, 1),
    port: 9000,
};

fuzz_target!(|bytes: &[u8]| {
    // The fuzzer does not find correct checksums. With `Port`, no frame is dropped for them.
    for verified in [Checksums::Software, Checksums::Port] {
        let mut frame = bytes.to_vec();
        match INTERFACE.receive(&frame, verified) {
            Ok(Frame::Datagram(datagram)) => {
                let payload = frame[datagram.payload.clone()].to_vec();
                frame.truncate(datagram.payload.end);
                let flow = datagram.flow;
                flow.reversed().write_headers(&mut frame, Checksums::Software);
                let peer = Interface {
                    mac: flow.source.mac,
                    ip: flow.source.ip,
                    port: flow.source.port,
                };
                let Ok(Frame::Datagram(reply)) = peer.receive(&frame, Checksums::Software) else {
                    panic!("the peer cannot read its reply");
                };
                assert_eq!(reply.flow, flow.reversed());
                assert_eq!(frame[reply.payload], payload);
            }
            Ok(Frame::Arp(Arp::Request(asker))) => {
                assert_eq!(arp::answer(&mut frame, &INTERFACE, asker), arp::FRAME_LEN);
            }
            Ok(Frame::Echo(echo)) => {
                assert!(icmp::answer(&mut frame, &INTERFACE, &echo) <= bytes.len());
            }
            Ok(Frame::Arp(Arp::Reply(_))) | Err(_) => {}
        }
    }
});
