//! Sockets on which several threads receive, each with an event queue of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Registry, Token};

/// Has an event queue say when something has come to `socket`. Where several event queues do, the kernel wakes one of the
/// threads that sleep in them, rather than all.
#[cfg(target_os = "linux")]
pub(crate) fn watch(registry: &Registry, socket: &impl AsFd, token: Token) -> io::Result<()> {
    use rustix::event::epoll::{EventData, EventFlags, add};

    let flags = EventFlags::IN | EventFlags::ET | EventFlags::EXCLUSIVE;
    Ok(add(
        registry,
        socket,
        EventData::new_u64(token.0 as u64),
        flags,
    )?)
}

/// Has an event queue say when something has come to `socket`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watch(registry: &Registry, socket: &impl AsFd, token: Token) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    registry.register(&mut SourceFd(&descriptor), token, mio::Interest::READABLE)
}

/// The event queue says so no longer. Others that have the socket still do.
pub(crate) fn forget(registry: &Registry, socket: &impl AsFd) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    registry.deregister(&mut SourceFd(&descriptor))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::event::Event;
    use mio::net::{UnixListener, UnixStream};
    use mio::{Events, Poll};

    use super::*;

    #[test]
    fn a_socket_in_two_event_queues_is_told_to_who_looks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut polls = [(); 2].map(|()| Poll::new().unwrap());
        let mut events = Events::with_capacity(8);
        let mut seen = |poll: &mut Poll| {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            events.iter().map(Event::token).collect::<Vec<_>>()
        };
        for poll in &polls {
            watch(poll.registry(), &listener, Token(7)).unwrap();
        }
        let _clients = UnixStream::connect(&path).unwrap();
        for poll in &mut polls {
            assert_eq!(seen(poll), [Token(7)]);
            assert!(seen(poll).is_empty(), "once");
        }
        forget(polls[0].registry(), &listener).unwrap();
        let _clients = UnixStream::connect(&path).unwrap();
        let [first, second] = &mut polls;
        assert_eq!((seen(first), seen(second)), (vec![], vec![Token(7)]));
    }
}
