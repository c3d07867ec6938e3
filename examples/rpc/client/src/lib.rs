//! A client of psp's RPC. Its messages are generated from the `.proto` files, as in a program that does not
//! use psp's own codec.
//!
//! ```text
//!   submit ─► Request { id, method, .. } ─► length, message ─► socket
//!   receive ◄── Response { id, status, .. } ◄── length, message ◄── socket     in any order
//! ```
//!
//! A client submits requests without waiting. Each response has the id of its request:
//!
//! ```no_run
//! use psp_rpc_client::{Client, methods::Work};
//!
//! let mut client = Client::connect("127.0.0.1:7100".parse().unwrap())?;
//! let echo = client.submit("Echo", 0, b"hello".to_vec())?;
//! let spin = client.submit("Spin", 0, &Work { duration_us: 500 })?;
//! for _ in 0..2 {
//!     let response = client.receive()?;
//!     assert!(response.id == echo || response.id == spin);
//! }
//! # Ok::<_, std::io::Error>(())
//! ```

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use prost::Message;

/// The envelope: `psp_rpc.proto`.
pub mod envelope {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/psp.rpc.v1.rs"));
}

/// The payloads of psp-rpc's methods: `psp_rpc_methods.proto`.
pub mod methods {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/psp.rpc.methods.v1.rs"));
}

use envelope::{Request, Response};

/// Longest datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Most bytes of the length in front of a message.
const PREFIX_LEN_MAX: usize = 5;
/// Longest response that the client accepts.
const RESPONSE_LEN_MAX: usize = 64 << 20;

/// A connection over TCP, or a socket for datagrams.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    last_id: u64,
}

#[derive(Debug)]
enum Transport {
    Tcp(BufReader<TcpStream>),
    Udp(UdpSocket),
}

/// The argument of a method: a message, or bytes.
pub trait Payload {
    /// The encoded argument.
    fn into_bytes(self) -> Vec<u8>;
}

impl Payload for Vec<u8> {
    fn into_bytes(self) -> Vec<u8> {
        self
    }
}

impl<M: Message> Payload for &M {
    fn into_bytes(self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// Decodes the payload of a response.
///
/// # Errors
/// [`ErrorKind::InvalidData`] when the payload is not of type `M`.
pub fn decode<M: Message + Default>(response: &Response) -> io::Result<M> {
    M::decode(&response.payload[..]).map_err(invalid)
}

impl Client {
    /// Connects over TCP.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            transport: Transport::Tcp(BufReader::new(stream)),
            last_id: 0,
        })
    }

    /// Sends datagrams to `address`, one message in each.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn datagrams(address: SocketAddr) -> io::Result<Self> {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(Self { transport: Transport::Udp(socket), last_id: 0 })
    }

    /// Sets how long [`receive`](Self::receive) waits.
    ///
    /// # Errors
    /// Errors of the socket. A timeout of 0 is an error.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match &self.transport {
            Transport::Tcp(stream) => stream.get_ref().set_read_timeout(Some(timeout)),
            Transport::Udp(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }

    /// Sends a request and returns its id. `deadline_us` is 0 for none.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn submit(&mut self, method: &str, deadline_us: u64, payload: impl Payload) -> io::Result<u64> {
        self.last_id += 1;
        let request = Request {
            id: self.last_id,
            method: method.to_owned(),
            deadline_us,
            payload: payload.into_bytes(),
        };
        self.send(&request.encode_length_delimited_to_vec())?;
        Ok(self.last_id)
    }

    /// Sends bytes unchanged: a frame, or in a test malformed bytes.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.transport {
            Transport::Tcp(stream) => stream.get_mut().write_all(bytes),
            Transport::Udp(socket) => socket.send(bytes).map(|_| ()),
        }
    }

    /// Waits for the next response, to any of the requests.
    ///
    /// # Errors
    /// Errors of the socket, and [`ErrorKind::InvalidData`] for a malformed response.
    pub fn receive(&mut self) -> io::Result<Response> {
        let frame = self.receive_frame()?;
        Response::decode_length_delimited(&frame[..]).map_err(invalid)
    }

    /// Waits for the next response and returns its bytes, including the length in front of them.
    ///
    /// # Errors
    /// Errors of the socket, and [`ErrorKind::InvalidData`] for a malformed length.
    pub fn receive_frame(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.transport {
            Transport::Tcp(stream) => read_frame(stream),
            Transport::Udp(socket) => {
                let mut datagram = vec![0; DATAGRAM_LEN_MAX];
                let len = socket.recv(&mut datagram)?;
                datagram.truncate(len);
                Ok(datagram)
            }
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

fn read_frame(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    while frame.last().is_none_or(|byte| byte & 0x80 != 0) {
        if frame.len() == PREFIX_LEN_MAX {
            return Err(invalid("malformed length"));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        frame.extend(byte);
    }
    let len = prost::decode_length_delimiter(&frame[..]).map_err(invalid)?;
    if len > RESPONSE_LEN_MAX {
        return Err(invalid("response too long"));
    }
    let prefix_len = frame.len();
    frame.resize(prefix_len + len, 0);
    stream.read_exact(&mut frame[prefix_len..])?;
    Ok(frame)
}
