//! What the kernel holds for the peer of a socket. It says whether the peer reads: the socket itself takes more only
//! once a third of its buffer is free.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` of Linux (`tcp(7)`, `unix(7)`).
const OUTPUT_QUEUE: Opcode = libc::TIOCOUTQ as Opcode;

/// Bytes that were sent and have not reached the peer.
pub(super) fn queued_bytes(socket: impl AsFd) -> io::Result<usize> {
    // SAFETY: the kernel writes one int for this request, and does nothing else.
    let bytes = unsafe { ioctl(socket, Getter::<OUTPUT_QUEUE, libc::c_int>::new()) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Fills the socket of `sender`, and has the other end read all of it.
    fn check(mut sender: impl Write + AsFd, mut reader: impl Read, until_taken: impl Fn()) {
        let mut sent = 0;
        while let Ok(count) = sender.write(&[0; 65_536]) {
            sent += count;
        }
        let full = queued_bytes(&sender).unwrap();
        assert!(full > 0 && full <= 2 * sent, "{full} of {sent}");
        reader.read_exact(&mut vec![0; sent]).unwrap();
        until_taken();
        assert_eq!(queued_bytes(&sender).unwrap(), 0);
    }

    #[test]
    fn what_the_peer_has_taken_leaves_the_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        let acknowledged = sender.try_clone().unwrap();
        check(sender, reader, || {
            while queued_bytes(&acknowledged).unwrap() > 0 {
                std::thread::yield_now();
            }
        });
        let (sender, reader) = UnixStream::pair().unwrap();
        sender.set_nonblocking(true).unwrap();
        check(sender, reader, || {});
    }
}
