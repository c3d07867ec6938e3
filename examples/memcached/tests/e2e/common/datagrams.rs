//! A client that uses datagrams.

use std::net::{SocketAddr, UdpSocket};

use psp_harness::DEADLINE;
use psp_protocols::memcached::udp::{DATAGRAM_LEN_MAX, HEADER_LEN, Header};

/// A client that sends and receives raw datagrams.
pub(crate) struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    pub(crate) fn open(server: SocketAddr) -> Self {
        Self::open_from("0.0.0.0", server)
    }

    /// A client whose datagrams come from `address`.
    pub(crate) fn open_from(address: &str, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket }
    }

    /// Sends a header and a request.
    pub(crate) fn send(&self, header: Header, request: impl AsRef<[u8]>) {
        self.send_bytes(&[&header.encode()[..], request.as_ref()].concat());
    }

    /// Sends raw bytes.
    pub(crate) fn send_bytes(&self, datagram: &[u8]) {
        self.socket.send(datagram).unwrap();
    }

    /// The header and the rest of the next datagram.
    pub(crate) fn receive(&self) -> (Header, Vec<u8>) {
        let mut buffer = [0; 65_536];
        let len = self.socket.recv(&mut buffer).expect("a datagram");
        assert!(len <= DATAGRAM_LEN_MAX, "{len} bytes");
        let header = Header::decode(&buffer[..len]).expect("a header");
        (header, buffer[HEADER_LEN..len].to_vec())
    }

    /// The datagrams of one reply, joined.
    pub(crate) fn reply(&self, request_id: u16) -> Vec<u8> {
        let (first, mut reply) = self.receive();
        for sequence in 0..first.count {
            let part = Header { sequence, count: first.count, ..Header::request(request_id) };
            if sequence == 0 {
                assert_eq!(first, part);
                continue;
            }
            let (header, rest) = self.receive();
            assert_eq!(header, part);
            reply.extend(rest);
        }
        reply
    }

    /// Sends the lines of `request`, separated by `|`, and returns the reply.
    pub(crate) fn ask(&self, request_id: u16, request: &str) -> String {
        self.send(Header::request(request_id), request.replace('|', "\r\n"));
        String::from_utf8(self.reply(request_id)).unwrap()
    }
}
