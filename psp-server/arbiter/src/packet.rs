//! Packets on a socket, some with a descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::protocol::{MESSAGE_BYTES, Packet};

/// A packet and its length, which is one more than a message's if it is longer than that.
pub(crate) struct Received {
    bytes: [u8; MESSAGE_BYTES + 1],
    len: usize,
    /// The first descriptor that came with it.
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Received {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Sends a packet without waiting.
///
/// # Errors
/// `AGAIN` when the peer has too many packets to read.
pub(crate) fn send(socket: impl AsFd, packet: &Packet, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags)?;
    Ok(())
}

/// Receives a packet without waiting. `None` at the end.
///
/// # Errors
/// `AGAIN` when there is none.
pub(crate) fn receive(socket: impl AsFd) -> Result<Option<Received>> {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let len = loop {
        let received = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        match received {
            // The peer went without having read everything. What it said before comes next.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            received => break received?.bytes,
        }
    };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((len > 0).then_some(Received { bytes, len, descriptor }))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn the_last_words_of_a_peer_are_heard_before_its_end() {
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (here, there) = socketpair(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (first, last) = ([1; MESSAGE_BYTES], [2; MESSAGE_BYTES]);
        send(&here, &first, None).unwrap();
        send(&there, &last, None).unwrap();
        // With a packet that it has not read, its end is an error before it is an end.
        drop(there);
        assert_eq!(receive(&here).unwrap().unwrap().bytes(), last);
        assert!(receive(&here).unwrap().is_none());
    }

    #[test]
    fn a_packet_may_have_a_descriptor_and_may_be_too_long() {
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (here, there) = socketpair(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
        send(&here, &[1; MESSAGE_BYTES], Some(here.as_fd())).unwrap();
        assert!(receive(&there).unwrap().unwrap().descriptor.is_some());
        rustix::net::send(&here, &[0; 1000], SendFlags::empty()).unwrap();
        let received = receive(&there).unwrap().unwrap();
        assert_eq!(received.bytes().len(), MESSAGE_BYTES + 1);
        assert!(received.descriptor.is_none());
        assert_eq!(receive(&there).err(), Some(Errno::AGAIN));
    }
}
