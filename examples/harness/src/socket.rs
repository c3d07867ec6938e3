//! Client connections that do not hang.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::DEADLINE;

/// Connects to `address`. Reads and writes fail after [`DEADLINE`] instead of hanging.
///
/// # Errors
/// Those of [`TcpStream::connect`].
pub fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    // One descriptor for both directions: a test may hold thousands of connections.
    Ok(BufReader::new(stream))
}

/// Everything the server sends until it closes the connection; a reset counts as closed.
///
/// # Panics
/// When the server keeps the connection open.
pub fn read_to_close(connection: &mut impl Read) -> Vec<u8> {
    let mut received = Vec::new();
    match connection.read_to_end(&mut received) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            panic!("the server keeps the connection open: {error}")
        }
        _ => received,
    }
}

/// A client connection of raw bytes, on which a suite builds its protocol. Reads and writes time out instead of
/// hanging.
#[derive(Debug)]
pub struct RawConnection {
    /// Reads what the server sends.
    pub reader: BufReader<TcpStream>,
}

impl RawConnection {
    /// Connects to `address`.
    ///
    /// # Errors
    /// The errors of [`connect`].
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let reader = connect(address)?;
        Ok(Self { reader })
    }

    /// The socket.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends raw bytes.
    ///
    /// # Panics
    /// The server does not accept the bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes.as_ref()).expect("the server reads");
    }

    /// Sends bytes that the server may not read to the end.
    ///
    /// # Errors
    /// The errors of the socket if the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream().write_all(bytes)
    }

    /// Tells the server that no further requests follow.
    ///
    /// # Panics
    /// The connection is closed.
    pub fn finish_sending(&self) {
        self.stream().shutdown(Shutdown::Write).unwrap();
    }

    /// Reads everything until the server closes the connection. A reset counts as closed.
    ///
    /// # Panics
    /// The server keeps the connection open.
    pub fn read_to_close(&mut self) -> Vec<u8> {
        read_to_close(&mut self.reader)
    }
}
