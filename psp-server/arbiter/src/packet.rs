//! Packets on a socket, some with a descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
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
pub(crate) fn send(
    socket: impl AsFd,
    packet: &Packet,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<()> {
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
        let received = recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags,
        );
        match received {
            Err(Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((len > 0).then_some(Received {
        bytes,
        len,
        descriptor,
    }))
}
