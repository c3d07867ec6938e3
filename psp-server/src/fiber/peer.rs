//! The peer of the request that runs on this thread, for code that has no [`Request`](crate::Request) at hand.
//!
//! Like the [state](super::thread_state) of the thread, this is a thread-local variable with a constant initial value
//! and no destructor.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::presence::PeerWatch;

thread_local! {
    /// Null where no request of a connection runs.
    static PEER: AtomicPtr<PeerWatch<'static>> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// The peer of a request that yields.
#[derive(Debug)]
pub(super) struct Kept(*mut PeerWatch<'static>);

/// What [`restore`] needs when the request goes on.
pub(super) fn keep() -> Kept {
    Kept(PEER.with(|peer| peer.load(Ordering::Relaxed)))
}

/// The request that yielded goes on.
pub(super) fn restore(kept: &Kept) {
    PEER.with(|peer| peer.store(kept.0, Ordering::Relaxed));
}

/// Runs `body`, the call of the handler for a request of this peer; `None` for a datagram.
#[inline]
pub(crate) fn for_peer<T>(watch: Option<&PeerWatch<'_>>, body: impl FnOnce() -> T) -> T {
    /// Forgets the peer when `body` returns or panics.
    struct Watched;

    impl Drop for Watched {
        #[inline]
        fn drop(&mut self) {
            restore(&Kept(ptr::null_mut()));
        }
    }

    let watch = watch.map_or(ptr::null(), ptr::from_ref);
    restore(&Kept(watch.cast_mut().cast()));
    let _watched = Watched;
    body()
}

/// Whether no client waits any more for the reply to the request that runs on this thread: its connection was reset, or
/// the peer has ended it later than [`Config::half_close_grace_ms`](crate::Config::half_close_grace_ms) after its
/// last bytes.
///
/// Long work asks now and then, where it calls [`checkpoint`](crate::checkpoint), and stops. Its reply is not sent.
/// A call costs two loads.
/// `false` for datagrams, and on threads that run no request.
///
/// The net thread notices that a peer has gone. So `false` is also the answer in a request that the net thread runs
/// itself, as worker 0 of the topology `Inline`, until that request [waits](crate::wait()).
#[allow(unsafe_code)]
#[inline]
#[must_use]
pub fn is_abandoned() -> bool {
    let watch = PEER.with(|peer| peer.load(Ordering::Relaxed));
    // SAFETY: `for_peer` stores the pointer while it borrows the watch, on whose stack the caller runs, and
    // forgets it before the borrow ends. Another request that runs on the thread between two turns stores its own,
    // and `restore` puts this one back. A stack that is left behind for good resumes nothing that could call this.
    let watch = unsafe { watch.as_ref() };
    watch.is_some_and(PeerWatch::is_gone)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::presence::{Presence, State};

    #[test]
    fn each_request_sees_its_own_peer() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, other) = (Presence::default(), Presence::default());
        let watch = |presence| PeerWatch { presence, socket: socket.as_raw_fd() };
        assert!(!is_abandoned(), "there is no request");
        for_peer(Some(&watch(&first)), || {
            assert!(!is_abandoned());
            first.set(State::Gone);
            assert!(is_abandoned());
            // The request yields to another one, and goes on.
            let kept = keep();
            for_peer(Some(&watch(&other)), || assert!(!is_abandoned()));
            for_peer(None, || assert!(!is_abandoned()));
            restore(&kept);
            assert!(is_abandoned());
        });
        assert!(!is_abandoned(), "the request is over");
    }
}
