//! A blocking client connection that sends and receives raw bytes.

use std::io::{self, BufRead, ErrorKind, Read};
use std::net::SocketAddr;

use psp_harness::{RawConnection, dereferences};

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

    /// The client's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream().local_addr().expect("an address")
    }

    /// Sends the lines of `request`, separated by `|`, and expects the lines of `reply`.
    ///
    /// # Panics
    /// The reply differs.
    /// When it is something else.
    pub(crate) fn expect(&mut self, request: &str, reply: &str) {
        self.send(lines(request));
        self.expect_reply(request, lines(reply).as_bytes());
    }

    /// Reads a reply to `what`, which must be these bytes.
    ///
    /// # Panics
    /// The reply differs.
    pub(crate) fn expect_reply(&mut self, what: &str, reply: &[u8]) {
        let mut read = vec![0; reply.len()];
        let mut len = 0;
        while len < reply.len() && read[..len] == reply[..len] {
            match self.reader.read(&mut read[len..]) {
                Ok(count @ 1..) => len += count,
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{what:?}: {error}"),
            }
        }
        assert!(
            read[..len] == *reply,
            "{what:?}:\n{}\ninstead of\n{}",
            read[..len].escape_ascii(),
            reply.escape_ascii()
        );
    }

    /// Sends one line and returns the reply line.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n"));
        self.line()
    }

    /// Whether the server serves this connection rather than refuse it.
    pub(crate) fn is_served(&mut self) -> bool {
        let mut line = String::new();
        let sent = self.try_send(b"mn\r\n");
        sent.is_ok() && self.reader.read_line(&mut line).is_ok() && line == "MN\r\n"
    }

    /// Reads one line, without its end.
    ///
    /// # Panics
    /// The connection ends or stays silent instead.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        assert!(line.ends_with('\n'), "the connection ends: {line:?}");
        line.trim_end().to_owned()
    }

    /// Reads bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    /// Sends one line and returns the lines of the reply up to `END`.
    pub(crate) fn list(&mut self, line: &str) -> Vec<String> {
        self.send(format!("{line}\r\n"));
        let lines = std::iter::from_fn(|| Some(self.line()));
        lines.take_while(|line| line != "END").collect()
    }

    /// A figure of `stats`.
    ///
    /// # Panics
    /// There is no such figure.
    pub(crate) fn stat(&mut self, stats: &str, name: &str) -> u64 {
        let figures = self.list(stats);
        let prefix = format!("STAT {name} ");
        let value = figures.iter().find_map(|line| line.strip_prefix(&prefix));
        let value = value.unwrap_or_else(|| panic!("{name} in {figures:?}"));
        value.parse().expect("a number")
    }
}

/// The lines in a text separated by `|`, each with its line end. An empty text has no lines.
fn lines(text: &str) -> String {
    let lines = text.split('|').filter(|_| !text.is_empty());
    lines.map(|line| format!("{line}\r\n")).collect()
}
