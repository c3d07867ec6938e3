//! A blocking client connection that sends and receives raw bytes.

use std::io::{self, BufRead, ErrorKind, Write};
use std::net::SocketAddr;

use psp_harness::{RawConnection, dereferences};

use super::{Reply, wait_until};

/// A client connection. Reads and writes time out instead of hanging.
pub(crate) struct Connection {
    raw: RawConnection,
}

dereferences!(Connection => raw: RawConnection);

impl Connection {
    /// Connects to `address`.
    ///
    /// # Errors
    /// The errors of [`RawConnection::open`].
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        RawConnection::open(address).map(|raw| Self { raw })
    }

    /// Sends as many of `bytes` as the kernel accepts at once. Returns how many.
    pub(crate) fn send_without_blocking(&mut self, bytes: &[u8]) -> usize {
        self.stream().set_nonblocking(true).unwrap();
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream().write(&bytes[sent..]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("send: {error}"),
            }
        }
        self.stream().set_nonblocking(false).unwrap();
        sent
    }

    /// Reads the next reply.
    ///
    /// # Panics
    /// The connection ends or stays silent instead.
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a reply")
    }

    /// Reads the next reply, or returns the error of the connection.
    ///
    /// # Errors
    /// The errors of [`Reply::read`].
    pub(crate) fn try_reply(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.reader)
    }

    /// Sends one request and reads its reply.
    pub(crate) fn request(&mut self, words: &[impl AsRef<[u8]>]) -> Reply {
        self.send(encode(words));
        self.reply()
    }

    /// Sends the words of `line` as one request and returns the reply as [`Reply`] prints it.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(encode_line(line));
        self.reply().to_string()
    }

    /// The text of one section of INFO.
    pub(crate) fn info(&mut self, section: &str) -> String {
        String::from_utf8(self.request(&["INFO", section]).into_bytes()).unwrap()
    }

    /// Waits until the server counts `count` clients, including this one.
    pub(crate) fn wait_for_clients(&mut self, count: usize) {
        let line = format!("connected_clients:{count}\r\n");
        wait_until(&line, || self.info("clients").contains(&line));
    }

    /// Whether a part of a reply has arrived.
    pub(crate) fn has_received(&self) -> bool {
        self.stream().set_nonblocking(true).unwrap();
        let peeked = self.stream().peek(&mut [0]);
        self.stream().set_nonblocking(false).unwrap();
        match peeked {
            Ok(received) => received > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("peek: {error}"),
        }
    }

    /// Reads until these bytes have come.
    ///
    /// # Panics
    /// The connection ends or stays silent instead.
    pub(crate) fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            let last = *end.last().expect("an end");
            let count = self.reader.read_until(last, &mut bytes).expect("a reply");
            assert!(count > 0, "the end after {}", bytes.escape_ascii());
        }
        bytes
    }
}

/// The bytes of one request, as an array of bulk strings.
pub(crate) fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// The replies to `lines`, sent together.
///
/// # Panics
/// The connection ends or stays silent instead.
pub(crate) fn pipeline(client: &mut Connection, lines: &[&str]) -> Vec<String> {
    let requests: Vec<_> = lines.iter().map(|line| encode_line(line)).collect();
    client.send(requests.concat());
    lines.iter().map(|_| client.reply().to_string()).collect()
}

/// The bytes of the request whose words are separated by spaces in `line`.
pub(crate) fn encode_line(line: &str) -> Vec<u8> {
    encode(&line.split_whitespace().collect::<Vec<_>>())
}
