//! The events of one thread, in one trace after the other.
//!
//! ```text
//!   writer   session = 7? no: len = 0, session = 7 ─► words ─► len + 1 (release)     full: dropped + 1
//!   reader   (trace 7 is over) session = 7? ─► len (acquire) ─► words below len
//! ```
//!
//! A ring has one writer at a time: its thread, or the threads of a worker one after the other. The reader reads when
//! the trace is over. The writer may still be about to add an event of that trace, which the reader then misses. It
//! begins another trace only when the reader has read this one. So the words below `len` never change under the reader.
//! Checked by loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use psp_trace::Event;

type Words = [AtomicU64; Event::WORDS];

/// See the [module](self).
#[repr(align(128))]
pub(super) struct Ring {
    /// Number of the trace whose events are here.
    session: AtomicU64,
    len: AtomicU64,
    /// Events of that trace that found no room.
    dropped: AtomicU64,
    words: OnceLock<Box<[Words]>>,
    capacity: usize,
}

/// What a ring has of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) events: Vec<[u64; Event::WORDS]>,
    pub(super) dropped: u64,
}

impl Ring {
    /// Room for so many events, from when it is [made](Self::make).
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            session: AtomicU64::new(0),
            len: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            words: OnceLock::new(),
            capacity,
        }
    }

    /// Makes the room, unless it is there.
    pub(super) fn make(&self) {
        let empty = |_| std::array::from_fn(|_| AtomicU64::new(0));
        self.words.get_or_init(|| (0..self.capacity).map(empty).collect());
    }

    /// Adds an event to a trace. For the writer.
    pub(super) fn push(&self, session: u64, event: [u64; Event::WORDS]) {
        let Some(words) = self.words.get() else {
            return;
        };
        if self.session.load(Ordering::Relaxed) != session {
            self.len.store(0, Ordering::Relaxed);
            self.dropped.store(0, Ordering::Relaxed);
            self.session.store(session, Ordering::Release);
        }
        let len = self.len.load(Ordering::Relaxed);
        let Some(place) = usize::try_from(len).ok().and_then(|len| words.get(len)) else {
            let dropped = self.dropped.load(Ordering::Relaxed);
            return self.dropped.store(dropped + 1, Ordering::Relaxed);
        };
        for (place, word) in place.iter().zip(event) {
            place.store(word, Ordering::Relaxed);
        }
        self.len.store(len + 1, Ordering::Release);
    }

    /// The events of a trace that is over. No other trace may begin meanwhile.
    pub(super) fn read(&self, session: u64) -> Recorded {
        let has_any = self.session.load(Ordering::Acquire) == session;
        let words = self.words.get().filter(|_| has_any);
        let len = self.len.load(Ordering::Acquire);
        let read = |words: &Words| std::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        let events = words.map_or_else(Vec::new, |words| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            words.iter().take(len).map(read).collect()
        });
        let dropped = if has_any {
            self.dropped.load(Ordering::Relaxed)
        } else {
            0
        };
        Recorded { events, dropped }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_first_events_of_a_trace_and_counts_the_others() {
        let ring = Ring::new(3);
        ring.push(1, [1; 3]);
        ring.make();
        assert_eq!(ring.read(1).events.len(), 0, "it had no room yet");
        for number in 1..=5 {
            ring.push(2, [number; 3]);
        }
        let recorded = Recorded { events: vec![[1; 3], [2; 3], [3; 3]], dropped: 2 };
        assert_eq!(ring.read(2), recorded);
        assert_eq!(ring.read(3).events.len(), 0, "another trace");
        ring.push(3, [9; 3]);
        let recorded = Recorded { events: vec![[9; 3]], dropped: 0 };
        assert_eq!(ring.read(3), recorded);
        ring.make();
        assert_eq!(ring.read(3), recorded, "it is made once");
    }
}
