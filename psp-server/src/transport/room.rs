//! Workers ask the net thread for room in the budget: it alone can close connections that hold much and wait for
//! nothing.
//!
//! ```text
//!   worker                                      net thread
//!   no room: ask ── bytes, ticket, bell ──────► asked: closes connections
//!   waits   ◄───────────── ticket ───────────── answer
//! ```

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::fiber::no_preempt;

/// How long a worker waits for an answer. A net thread that has a processor answers within its turn.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a worker sleeps between looks for an answer.
const LOOK_INTERVAL: Duration = Duration::from_micros(50);

/// What the net thread asks and answers by.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes that were asked for since the net thread looked last.
    wanted_bytes: AtomicUsize,
    /// How often was asked.
    tickets: AtomicU64,
    /// All tickets up to this have an answer.
    answered: AtomicU64,
    keeper: OnceLock<Keeper>,
}

/// The net thread.
struct Keeper {
    thread: ThreadId,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

/// What the net thread was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) bytes: usize,
    ticket: u64,
}

impl Room {
    /// The calling thread makes room for as long as it has what it gets. `wake` wakes it.
    pub(crate) fn keep(&self, wake: impl Fn() + Send + Sync + 'static) -> Kept<'_> {
        let thread = thread::current().id();
        let wake = Box::new(wake);
        // A server has one net thread.
        let _kept = self.keeper.set(Keeper { thread, wake });
        Kept(self)
    }

    /// Asks for room, and waits until the net thread has done what it can. Returns whether it has: not if the caller is
    /// the net thread, which makes room when it has ended the request that it runs.
    #[cold]
    pub(crate) fn ask(&self, bytes: usize) -> bool {
        let Some(keeper) = self.keeper.get() else {
            return false;
        };
        self.wanted_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Publishes the bytes. The bell orders this before its look at whether the net thread sleeps.
        let ticket = self.tickets.fetch_add(1, Ordering::SeqCst) + 1;
        if keeper.thread == thread::current().id() {
            return false;
        }
        (keeper.wake)();
        no_preempt(|| {
            let since = Instant::now();
            while self.answered.load(Ordering::Acquire) < ticket {
                if since.elapsed() > PATIENCE {
                    return false;
                }
                thread::sleep(LOOK_INTERVAL);
            }
            true
        })
    }

    /// What was asked for and has no answer.
    #[inline]
    pub(crate) fn asked(&self) -> Option<Asked> {
        let ticket = self.tickets.load(Ordering::SeqCst);
        (ticket > self.answered.load(Ordering::Relaxed))
            .then(|| Asked { bytes: self.wanted_bytes.swap(0, Ordering::Relaxed), ticket })
    }

    /// Whether the net thread was asked for room.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.tickets.load(Ordering::SeqCst) > self.answered.load(Ordering::Relaxed)
    }

    /// The net thread has made what room it can.
    pub(crate) fn answer(&self, asked: Asked) {
        self.answered.store(asked.ticket, Ordering::Release);
    }
}

/// A thread makes room. From its drop on, no thread waits for an answer: deferred replies may outlive their server.
#[must_use]
pub(crate) struct Kept<'a>(&'a Room);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.answered.store(u64::MAX, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_worker_waits_until_the_net_thread_has_answered_for_all() {
        let room = Arc::new(Room::default());
        assert!(!room.ask(7), "there is no net thread");
        assert_eq!(room.asked(), None);
        let (asks, asked) = std::sync::mpsc::channel();
        let kept = room.keep(move || asks.send(()).unwrap());
        let workers: Vec<_> = (1..=3)
            .map(|bytes| {
                let room = room.clone();
                thread::spawn(move || room.ask(bytes))
            })
            .collect();
        for _ in &workers {
            asked.recv().unwrap();
        }
        let all = room.asked().unwrap();
        assert!(all.bytes == 6 && room.is_asked());
        room.answer(all);
        assert!(!room.is_asked() && room.asked().is_none());
        for worker in workers {
            worker.join().unwrap();
        }
        drop(kept);
        let late = room.clone();
        assert!(thread::spawn(move || late.ask(1)).join().unwrap());
        assert!(!room.is_asked(), "there is no net thread any more");
    }

    #[test]
    fn the_net_thread_does_not_wait_for_itself() {
        let room = Room::default();
        let _kept = room.keep(|| unreachable!("it is awake"));
        assert!(!room.ask(7));
        assert_eq!(room.asked().map(|asked| asked.bytes), Some(7));
    }
}
