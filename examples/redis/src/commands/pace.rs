//! Checkpoints of commands that walk many elements. At a checkpoint the server may run another
//! request first.
//!
//! A walk steps the pace for every element, and each 64th step is a [`checkpoint`]. A walk must
//! not call a checkpoint while it holds a key's lock: another request of the same worker would wait
//! for the lock for ever. Reads and large replies walk snapshots. Changes of many elements also run
//! on a snapshot. If other clients keep changing the same key, the last attempt runs under its
//! lock, and its pace makes no checkpoints.

use std::cell::Cell;

use psp_server::{checkpoint, feedback, is_abandoned};
use psp_store::Slot;

/// Elements between two checkpoints.
const ELEMENTS: u32 = 64;

/// Work on more elements takes 100 us and more.
const LONG_ELEMENTS_MIN: usize = 1024;

/// Work on so many elements begins, whatever the request was taken for. No lock is held.
pub(super) fn begins(elements: usize) {
    if elements >= LONG_ELEMENTS_MIN {
        feedback::long();
    }
}

/// Counts elements.
pub(super) struct Pace {
    elements: Cell<u32>,
    silent: bool,
    abandoned: Cell<bool>,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            elements: Cell::new(0),
            silent: false,
            abandoned: Cell::new(false),
        }
    }

    /// Whether the client had gone at the last checkpoint. A read may stop then, at any point of its reply.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// The pace of a change of `slot`.
    pub(super) fn of(slot: &Slot<'_>) -> Self {
        Self { silent: slot.is_locked(), ..Self::new() }
    }

    /// Counts one more element.
    #[inline]
    pub(super) fn step(&self) {
        let elements = self.elements.get() + 1;
        if elements < ELEMENTS {
            self.elements.set(elements);
            return;
        }
        self.elements.set(0);
        self.pause();
    }

    /// Drops `items`, and counts each.
    pub(super) fn drop_all<T>(&self, items: Vec<T>) {
        for item in items {
            self.step();
            drop(item);
        }
    }

    /// A checkpoint, whatever was counted before.
    pub(super) fn pause(&self) {
        if !self.silent {
            checkpoint();
            self.abandoned.set(is_abandoned());
        }
    }
}
