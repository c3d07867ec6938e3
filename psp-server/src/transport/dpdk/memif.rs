//! Memory interfaces (`net_memif`): their rings do not change while they are polled.
//!
//! The two ends of a memory interface map the rings that they share. It is DPDK's interrupt thread that maps
//! them when the ends connect and unmaps them when either end goes, and it does not ask whether somebody is
//! reading them just then. So bursts of memory interfaces share a lock, and whoever opens or closes one has it
//! alone until the interrupt thread is through with both ends:
//!
//! ```text
//!   thread that closes A   ── has the lock alone: closes A ─┬─ waits for the interrupt thread ─┬──►
//!   interrupt thread                                        └─ unmaps B's rings, A being gone ─┘
//!   threads that poll B    ── burst ──┤ nothing comes, and what is to be sent waits            ├─ burst ──►
//! ```
//!
//! That is for ends in one process. An end in another process comes and goes unannounced, and DPDK 22.11 has
//! nothing to hold its interrupt thread up with: then this process may crash.
//!
//! Rings of other drivers are there from the start of a port to its end; for their ports this is one branch.

use std::sync::{PoisonError, RwLock, TryLockError};

use dpdk_sys as sys;

use super::eal::{Eal, await_round};

/// Shared by bursts of memory interfaces.
static CONNECTIONS: RwLock<()> = RwLock::new(());

/// Rounds of the interrupt thread in which it handles all that was ready before them: one that finds it, one
/// more for what the first leaves over when interrupts are registered meanwhile, and the start of a third.
const ROUNDS: usize = 3;

/// Whether the rings of a port come and go while it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rings {
    /// They are there for as long as the port.
    Fixed,
    /// A peer has them, too.
    Shared,
}

impl Rings {
    /// Those of a port.
    pub(super) fn of(info: &sys::PortInfo) -> Self {
        match info.memory_interface {
            0 => Self::Fixed,
            _ => Self::Shared,
        }
    }

    /// Takes a burst from a receive queue; nothing comes while ends connect or part. It never waits, for the
    /// thread that polls has other things to do.
    #[inline]
    pub(super) fn receive<T: Default>(self, burst: impl FnOnce() -> T) -> T {
        if self == Self::Fixed {
            return burst();
        }
        let _shared = match CONNECTIONS.try_read() {
            Ok(shared) => shared,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return T::default(),
        };
        burst()
    }

    /// Sends a burst, when no ends connect or part any more: what has no room is dropped.
    #[inline]
    pub(super) fn send<T>(self, burst: impl FnOnce() -> T) -> T {
        if self == Self::Fixed {
            return burst();
        }
        let _shared = CONNECTIONS.read().unwrap_or_else(PoisonError::into_inner);
        burst()
    }

    /// Starts a port with `queues` queues of each kind, and waits until it `is_connected` or its peer, if
    /// that is in this process, has said all there is to say.
    pub(super) fn connect<T>(
        self,
        eal: Eal,
        queues: usize,
        start: impl FnOnce() -> T,
        is_connected: impl Fn() -> bool,
    ) -> T {
        if self == Self::Fixed {
            return start();
        }
        let _alone = CONNECTIONS.write().unwrap_or_else(PoisonError::into_inner);
        let started = start();
        // Hello, init, a region, a ring for each queue, and connect: each is answered, and each message and
        // answer takes a round of its own.
        let messages = 2 * (4 + 2 * queues);
        for _ in 0..messages {
            if is_connected() {
                break;
            }
            await_round(eal);
        }
        settle(eal);
        started
    }

    /// Closes a port, and waits until its peer, if that is in this process, has seen it.
    pub(super) fn part(self, eal: Eal, close: impl FnOnce()) {
        if self == Self::Fixed {
            return close();
        }
        let _alone = CONNECTIONS.write().unwrap_or_else(PoisonError::into_inner);
        // The driver does not bear being closed while it handles the end of a connection.
        settle(eal);
        close();
        settle(eal);
    }
}

fn settle(eal: Eal) {
    for _ in 0..ROUNDS {
        await_round(eal);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn nothing_comes_and_nothing_goes_while_ends_connect_or_part() {
        let sent = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let alone = CONNECTIONS.write().unwrap();
            assert_eq!(Rings::Shared.receive(|| 7), 0);
            scope.spawn(|| Rings::Shared.send(|| sent.store(true, Ordering::SeqCst)));
            // Other ports go on.
            assert_eq!(Rings::Fixed.receive(|| 7), 7);
            assert_eq!(Rings::Fixed.send(|| 7), 7);
            assert!(!sent.load(Ordering::SeqCst));
            drop(alone);
        });
        assert!(sent.load(Ordering::SeqCst));
        assert_eq!(Rings::Shared.receive(|| 7), 7);
    }
}
