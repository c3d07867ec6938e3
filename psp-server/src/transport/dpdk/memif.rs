//! Memory interfaces (`net_memif`): keeps their rings from changing while they are polled.
//!
//! The two ends of a memory interface map the rings that they share. DPDK's interrupt thread maps them when the
//! ends connect and unmaps them when either end goes, even while another thread reads them. So bursts of memory
//! interfaces share a lock. A thread that opens or closes an end holds the lock alone until the interrupt
//! thread has handled both ends:
//!
//! ```text
//!   thread that closes A   ── has the lock alone: closes A ─┬─ waits for the interrupt thread ─┬──►
//!   interrupt thread                                        └─ unmaps B's rings, A being gone ─┘
//!   threads that poll B    ── burst ──┤ nothing comes, and frames to be sent wait               ├─ burst ──►
//! ```
//!
//! This works for ends in one process. An end in another process comes and goes unannounced, and DPDK 22.11
//! offers no way to hold up its interrupt thread: then this process may crash.
//!
//! Rings of other drivers exist from the start of a port to its end; for their ports this costs one branch.

use std::sync::{PoisonError, RwLock, TryLockError};

use dpdk_sys as sys;

use super::eal::{Eal, await_round};

/// Shared by bursts of memory interfaces.
static CONNECTIONS: RwLock<()> = RwLock::new(());

/// Rounds of the interrupt thread in which it handles all earlier events: one that finds them, one for events
/// that the first leaves over if interrupts are registered meanwhile, and the start of a third.
const ROUNDS: usize = 3;

/// Whether the rings of a port come and go while it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rings {
    /// The rings exist as long as the port.
    Fixed,
    /// A peer maps the rings, too.
    Shared,
}

impl Rings {
    /// The rings of a port.
    pub(super) fn of(info: &sys::PortInfo) -> Self {
        match info.memory_interface {
            0 => Self::Fixed,
            _ => Self::Shared,
        }
    }

    /// Takes a burst from a receive queue; nothing comes while ends connect or part. Never waits, because the
    /// polling thread has other work.
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

    /// Sends a burst, after ends that connect or part have done so: frames without room are dropped.
    #[inline]
    pub(super) fn send<T>(self, burst: impl FnOnce() -> T) -> T {
        if self == Self::Fixed {
            return burst();
        }
        let _shared = CONNECTIONS.read().unwrap_or_else(PoisonError::into_inner);
        burst()
    }

    /// Starts a port with `queues` queues of each kind, and waits until it `is_connected`, or until a peer in
    /// this process has sent all messages of a connection.
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
        // answer takes one round.
        let messages = 2 * (4 + 2 * queues);
        for _ in 0..messages {
            if is_connected() {
                break;
            }
            await_round(eal);
        }
        await_rounds(eal);
        started
    }

    /// Closes a port, and waits until a peer in this process has noticed.
    pub(super) fn part(self, eal: Eal, close: impl FnOnce()) {
        if self == Self::Fixed {
            return close();
        }
        let _alone = CONNECTIONS.write().unwrap_or_else(PoisonError::into_inner);
        // The driver fails if it is closed while it handles the end of a connection.
        await_rounds(eal);
        close();
        await_rounds(eal);
    }
}

/// Waits until the interrupt thread has handled all earlier events.
fn await_rounds(eal: Eal) {
    for _ in 0..ROUNDS {
        await_round(eal);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn no_frame_comes_or_goes_while_ends_connect_or_part() {
        let sent = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let alone = CONNECTIONS.write().unwrap();
            assert_eq!(Rings::Shared.receive(|| 7), 0);
            scope.spawn(|| Rings::Shared.send(|| sent.store(true, Ordering::SeqCst)));
            // Ports of other drivers go on.
            assert_eq!(Rings::Fixed.receive(|| 7), 7);
            assert_eq!(Rings::Fixed.send(|| 7), 7);
            assert!(!sent.load(Ordering::SeqCst));
            drop(alone);
        });
        assert!(sent.load(Ordering::SeqCst));
        assert_eq!(Rings::Shared.receive(|| 7), 7);
    }
}
