//! Golden frames from a file into a file.

use std::fs;

use psp_server::dpdk::Mac;
use psp_server::protocols::packet::{Checksums, End, Flow, MacAddr, udp::HEADERS_LEN};
use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind};
use psp_server::{Config, Policy, Topology};

use crate::common::until;
use crate::rig::{CLIENT, SERVER, TestServer, port, turn};

const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xaa]);

const ARP_REQUEST: &str = "ff ff ff ff ff ff 02 00 00 00 00 aa 08 06 00 01
    08 00 06 04 00 01 02 00 00 00 00 aa 0a 4e 00 02
    00 00 00 00 00 00 0a 4e 00 01";
const ARP_REPLY: &str = "02 00 00 00 00 aa 02 00 00 00 00 01 08 06 00 01
    08 00 06 04 00 02 02 00 00 00 00 01 0a 4e 00 01
    02 00 00 00 00 aa 0a 4e 00 02";
const ECHO_REQUEST: &str = "02 00 00 00 00 01 02 00 00 00 00 aa 08 00 45 00
    00 23 00 00 40 00 40 01 26 3c 0a 4e 00 02 0a 4e
    00 01 08 00 54 97 12 34 00 07 61 62 63 64 65 66 67";
const ECHO_REPLY: &str = "02 00 00 00 00 aa 02 00 00 00 00 01 08 00 45 00
    00 23 00 00 40 00 40 01 26 3c 0a 4e 00 01 0a 4e
    00 02 00 00 5c 97 12 34 00 07 61 62 63 64 65 66 67";

/// The global header of a file of Ethernet frames with times in microseconds.
const FILE_HEADER: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.split_whitespace();
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&FILE_HEADER);
    for frame in frames {
        let len = u32::try_from(frame.len()).unwrap();
        file.extend(words(&[0, 0, len, len]));
        file.extend(frame);
    }
    file
}

fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[4 * FILE_HEADER.len()..];
    let mut frames = Vec::new();
    while let Some((record, after)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(*record[8..].first_chunk().unwrap()) as usize;
        let (frame, after) = after.split_at(len);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// A message of psp in a frame, from the client to the server or back.
fn message(kind: Kind, id: u32) -> Vec<u8> {
    let end = |mac, address: std::net::SocketAddrV4| End { mac, ip: *address.ip(), port: address.port() };
    let asked = Flow {
        source: end(CLIENT_MAC, CLIENT),
        destination: end(SERVER_MAC, SERVER),
    };
    let header = Header { kind, request_type: 0, id, payload_len: 5, run_time_ns: 0 };
    let mut frame = vec![0; HEADERS_LEN];
    frame.extend(header.encode());
    frame.extend(b"echo!");
    assert_eq!(frame.len(), HEADERS_LEN + HEADER_LEN + 5);
    let flow = if kind == Kind::Request { asked } else { asked.reversed() };
    flow.write_headers(&mut frame, Checksums::Software);
    frame
}

#[test]
fn frames_of_a_file_have_their_answers_in_another() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut asked = vec![bytes(ARP_REQUEST), bytes(ECHO_REQUEST)];
    asked.extend((0..40).map(|id| message(Kind::Request, id)));
    // Frames that are cut off, and for another address.
    asked.push(message(Kind::Request, 100)[..40].to_vec());
    let mut strange = message(Kind::Request, 101);
    strange[5] = 0xfe;
    asked.push(strange);
    fs::write(path("in.pcap"), file(&asked)).unwrap();
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", path("in.pcap").display(), path("out.pcap").display());
    let port = port(SERVER, device).mac(Mac::Address(SERVER_MAC));
    // Three threads share the one queue.
    let config = Config::default().topology(Topology::Dedicated).workers(2);
    let server = TestServer::start(port, Policy::c_fcfs(), config);
    until("all frames", || {
        let packets = server.handle.snapshot().net.packets;
        packets.frames == asked.len() as u64 && server.counts() == (40, 0, 40)
    });
    assert_eq!(server.dropped("wrong_length"), 1);
    assert_eq!(server.dropped("other_mac"), 1);
    server.stop();
    let mut answers = frames(&fs::read(path("out.pcap")).unwrap());
    let mut expected = vec![bytes(ARP_REPLY), bytes(ECHO_REPLY)];
    expected.extend((0..40).map(|id| message(Kind::Reply, id)));
    // Replies of two workers may overtake each other.
    answers.sort();
    expected.sort();
    assert_eq!(answers, expected);
}
