//! Client connections that do not hang.

use std::io::{self, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};

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
