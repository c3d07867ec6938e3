//! Receiving into the unused capacity of a buffer, which nothing has to clear first.
//!
//! A body has a buffer for all that is announced. Clearing it would write each page once more than receiving does.

#![allow(unsafe_code)]

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, recv};

/// What a buffer receives from.
pub(crate) trait Receive: Read {
    /// Appends at most `count_max` bytes to `bytes`, within its capacity. Returns how many.
    ///
    /// # Errors
    /// Those of [`Read::read`].
    fn receive_spare(&mut self, bytes: &mut Vec<u8>, count_max: usize) -> io::Result<usize> {
        read_cleared(self, bytes, count_max)
    }
}

/// [`Receive::receive_spare`] of what can only read into bytes.
pub(super) fn read_cleared(
    source: &mut (impl Read + ?Sized),
    bytes: &mut Vec<u8>,
    count_max: usize,
) -> io::Result<usize> {
    let before = bytes.len();
    bytes.resize(bytes.capacity().min(before + count_max), 0);
    let received = source.read(&mut bytes[before..]);
    bytes.truncate(before + *received.as_ref().unwrap_or(&0));
    received
}

/// [`Receive::receive_spare`] of a socket of the system.
pub(super) fn receive_spare(socket: impl AsFd, bytes: &mut Vec<u8>, count_max: usize) -> io::Result<usize> {
    let spare = bytes.spare_capacity_mut();
    let count_max = count_max.min(spare.len());
    let ((received, _), _) = recv(socket, &mut spare[..count_max], RecvFlags::empty())?;
    let count = received.len();
    // SAFETY: `received` is the start of the capacity beyond the length, and `recv` has initialised it.
    unsafe { bytes.set_len(bytes.len() + count) };
    Ok(count)
}

#[cfg(test)]
impl Receive for &[u8] {}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_a_socket_has_is_appended_within_the_capacity() {
        let (mut there, here) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        there.write_all(b"hello world").unwrap();
        let mut bytes = Vec::with_capacity(10);
        bytes.push(b'>');
        assert_eq!(receive_spare(&here, &mut bytes, 3).unwrap(), 3);
        assert_eq!(bytes, b">hel");
        assert_eq!(receive_spare(&here, &mut bytes, 100).unwrap(), 6);
        assert_eq!((&bytes[..], bytes.capacity()), (&b">hello wor"[..], 10));
        bytes.reserve_exact(10);
        assert_eq!(receive_spare(&here, &mut bytes, 100).unwrap(), 2);
        let nothing = receive_spare(&here, &mut bytes, 100).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(there);
        assert_eq!(receive_spare(&here, &mut bytes, 100).unwrap(), 0);
        assert_eq!(bytes, b">hello world");
    }

    #[test]
    fn other_sources_do_the_same() {
        let mut source = &b"hello"[..];
        let mut bytes = Vec::with_capacity(4);
        assert_eq!(source.receive_spare(&mut bytes, 3).unwrap(), 3);
        assert_eq!(source.receive_spare(&mut bytes, 3).unwrap(), 1);
        assert_eq!(bytes, b"hell");
    }
}
