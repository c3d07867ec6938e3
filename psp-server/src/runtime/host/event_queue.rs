//! Event queues, and sockets on which several threads receive, each with an event queue of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Poll, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::event::{Event, SocketEvent};

/// Event queues for which a sleep sets no memory aside.
const QUEUES_PREALLOCATED: usize = 8;

/// An event queue, and the events that it had last.
pub(crate) struct EventQueue {
    poll: Poll,
    events: Events,
    /// Those of a simulated system.
    #[cfg(all(test, not(loom)))]
    simulated: Vec<Event>,
}

impl EventQueue {
    /// Takes up to `events_max` events at once.
    pub(crate) fn new(poll: Poll, events_max: usize) -> Self {
        Self {
            poll,
            events: Events::with_capacity(events_max),
            #[cfg(all(test, not(loom)))]
            simulated: Vec::new(),
        }
    }

    /// What sockets are registered with, and other event queues.
    pub(crate) fn poll(&self) -> &Poll {
        &self.poll
    }

    /// Waits for events. Returns whether the wait was not interrupted.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        #[cfg(all(test, not(loom)))]
        if let Some(waited) = crate::simulated::wait(timeout, &mut self.simulated) {
            return waited.map(|()| true);
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            polled => polled.map(|()| true),
        }
    }

    /// The events of the last wait.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let events = self.events.iter().map(|event| Event {
            token: event.token(),
            about: SocketEvent {
                readable: event.is_readable(),
                writable: event.is_writable(),
                ended: event.is_read_closed(),
                hung_up: event.is_write_closed(),
                failed: event.is_error(),
            },
        });
        #[cfg(all(test, not(loom)))]
        let events = events.chain(self.simulated.iter().copied());
        events
    }
}

/// Sleeps until one of the event queues has events. Returns whether the wait was not interrupted. A look at an event
/// queue costs the same for any number of sockets; to register it with another one, the kernel goes through all of
/// them.
///
/// # Errors
/// The system's.
pub(crate) fn sleep<'a>(queues: impl Iterator<Item = &'a EventQueue>, timeout: Duration) -> io::Result<bool> {
    let watched = queues.map(|queue| PollFd::new(queue.poll.registry(), PollFlags::IN));
    let mut watched: SmallVec<[PollFd<'_>; QUEUES_PREALLOCATED]> = watched.collect();
    match poll(&mut watched, Timespec::try_from(timeout).ok().as_ref()) {
        Err(Errno::INTR) => Ok(false),
        polled => Ok(polled.map(|_| true)?),
    }
}

/// Has an event queue say when something has come to `socket`. Where several event queues do, the kernel wakes one of
/// the threads that sleep in them, rather than all.
#[cfg(target_os = "linux")]
pub(crate) fn watch(registry: &Registry, socket: &impl AsFd, token: Token) -> io::Result<()> {
    use rustix::event::epoll::{EventData, EventFlags, add};

    let flags = EventFlags::IN | EventFlags::ET | EventFlags::EXCLUSIVE;
    Ok(add(registry, socket, EventData::new_u64(token.0 as u64), flags)?)
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

    #[test]
    fn a_sleep_ends_when_any_of_the_event_queues_has_events() {
        let directory = tempfile::tempdir().unwrap();
        let queues = [(); 3].map(|()| EventQueue::new(Poll::new().unwrap(), 8));
        let listeners = [0, 1, 2].map(|number| {
            let path = directory.path().join(number.to_string());
            let listener = UnixListener::bind(&path).unwrap();
            watch(queues[number].poll().registry(), &listener, Token(number)).unwrap();
            (listener, path)
        });
        assert!(sleep(queues.iter(), Duration::from_millis(1)).unwrap());
        for (mut queue, (_, path)) in queues.into_iter().zip(&listeners) {
            let idle = EventQueue::new(Poll::new().unwrap(), 8);
            let client = std::thread::scope(|scope| {
                let client = scope.spawn(|| UnixStream::connect(path).unwrap());
                assert!(sleep([&idle, &queue].into_iter(), Duration::MAX).unwrap());
                client.join().unwrap()
            });
            assert!(queue.wait(Duration::ZERO).unwrap());
            assert_eq!(queue.events().count(), 1);
            drop(client);
        }
    }
}
